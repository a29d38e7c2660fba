"""Model specs: read, written back, and refused with the part at fault."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coevo.config import Config
from coevo.errors import ConfigError
from coevo.models import ModelSpec, open_model, open_models, parse_spec
from coevo.models.ensemble import Ensemble, choose
from coevo.models.scripted import ScriptedModel
from coevo.models.spec import OPTIONS


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("openai:gpt-x", {"target": "gpt-x"}),
        ("openai:org/name:free@http://h:8000/v1", {"target": "org/name:free", "base_url": "http://h:8000/v1"}),
        ("openai:@cf/meta/llama@https://h/v1,top_p=0.9", {"target": "@cf/meta/llama", "base_url": "https://h/v1", "top_p": 0.9}),
        ("openai:claude@20250101", {"target": "claude@20250101"}),
        ("openai:m,temperature=0.2, max_tokens=9", {"temperature": 0.2, "max_tokens": 9}),
        ('openai:m,extra={"a":[1,{"b,c=":2}],"d":"}"},retries=0', {"extra": {"a": [1, {"b,c=": 2}], "d": "}"}, "retries": 0}),
        ("openai:m,price_in=1,price_out=2,key_env=MY_KEY", {"price_in": 1.0, "price_out": 2.0, "key_env": "MY_KEY"}),
        ("local", {"target": ""}),
        ("local,device=cuda:1,dtype=bfloat16", {"target": "", "device": "cuda:1", "dtype": "bfloat16"}),
        ("local:/models/a,b,batch=4", {"target": "/models/a,b", "batch": 4}),
        ("local:Org/Name", {"target": "Org/Name"}),
        ("scripted:replies.jsonl,order=number", {"target": "replies.jsonl", "order": "number"}),
        ("replay:runs/x", {"target": "runs/x"}),
    ],
)  # fmt: skip
def test_read_and_written_back(text, expected):
    spec = parse_spec(text)
    assert {name: getattr(spec, name) for name in expected} == expected
    assert parse_spec(str(spec)) == spec


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("opneai:m", ["'opneai'", "Did you mean 'openai'"]),
        ("gpt-4", ["unknown kind of model 'gpt-4'", "openai:NAME"]),
        ("", ["unknown kind of model ''"]),
        ("openai:", ["a model name is missing"]),
        ("openai", ["a model name is missing"]),
        ("scripted", ["a JSONL file is missing"]),
        ("openai:m,temprature=1", ["'temprature'", "Did you mean 'temperature'"]),
        ("openai:m,api_key=sk-secret", ["'api_key'", "Did you mean 'key_env'"]),
        ("openai:m,device=cuda", ["'device'", "belongs to local"]),
        ("openai:m,temperature=hot", ["temperature = 'hot'"]),
        ("openai:m,temperature=-1", ["temperature"]),
        ("openai:m,top_p=0", ["top_p"]),
        ("openai:m,top_p=nan", ["top_p"]),
        ("openai:m,weight=0", ["weight"]),
        ("openai:m,max_tokens=9,max_tokens=8", ["'max_tokens' is given twice"]),
        ("openai:m@localhost:8000/v1", ["has no scheme", "@http://localhost:8000/v1"]),
        ("openai:m@http://u:hunter2@h/v1", ["user name or password", "key_env"]),
        ("openai:m@http://h/v1?api_key=hunter2", ["holds a key"]),
        ("openai:m@http:///v1", ["is not http://"]),
        ("openai:m@http://h:99999/v1", ["cannot be read"]),
        ("openai:m,key_env=sk-hunter2", ["NAME of an environment variable"]),
        ("openai:m,key_env=gsk_hunter2", ["NAME of an environment variable"]),
        ("openai:m,extra={1}", ["extra is not JSON"]),
        ("openai:m,extra=[1]", ["must be a JSON object"]),
        ('openai:m,extra={"model":"x"}', ["extra cannot set model"]),
        ("openai:m,price_in=1", ["go together"]),
        ("openai:m,context=100,max_tokens=100", ["leaves no room"]),
        ("openai:a,b", ["options are name=value"]),
        ("local,device=gpu", ["unknown device 'gpu'"]),
        ("local,dtype=int8", ["dtype"]),
    ],
)
def test_refused_with_the_part_at_fault(text, words):
    with pytest.raises(ConfigError) as caught:
        parse_spec(text)
    assert all(word in str(caught.value) for word in words), str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_every_option_is_a_described_field_and_every_field_an_option():
    fields = ModelSpec.model_fields
    assert set().union(*OPTIONS.values()) == fields.keys() - {"kind", "target", "base_url"}
    assert issubclass(ModelSpec, Config) and all(field.description for field in fields.values())


@given(
    st.floats(0, 5), st.integers(1, 10**6), st.text("abc/._-", min_size=1), st.dictionaries(st.text(), st.integers())
)
def test_any_spec_survives_its_own_text(temperature, max_tokens, name, extra):
    data = {"kind": "openai", "target": name, "temperature": temperature, "max_tokens": max_tokens}
    spec = ModelSpec.model_validate(
        {**data, "extra": {k: v for k, v in extra.items() if k not in ("model", "messages", "stream", "n")}}
    )
    assert parse_spec(str(spec)) == spec


@given(st.text())
def test_any_text_is_read_or_refused(text):
    try:
        spec = parse_spec(text)
    except ConfigError:
        return
    assert isinstance(spec, ModelSpec)


def test_choice_by_weight_is_a_function_of_the_stream():
    weights = [1.0, 0.0, 3.0]
    picks = [choose(weights, random.Random(seed)) for seed in range(4000)]
    assert picks == [choose(weights, random.Random(seed)) for seed in range(4000)]
    assert picks.count(1) == 0 and 0.70 < picks.count(2) / 4000 < 0.80


@given(st.lists(st.floats(0, 1e300), min_size=1, max_size=6), st.integers())
def test_a_choice_never_has_weight_zero(weights, seed):
    if not 0 < sum(weights) < float("inf"):
        with pytest.raises(ConfigError):
            choose(weights, random.Random(seed))
    else:
        assert weights[choose(weights, random.Random(seed))] > 0


def test_bad_weights_are_refused():
    for weights in ([], [0.0], [1.0, -1.0], [float("nan")], [float("inf")]):
        with pytest.raises(ConfigError, match="weights"):
            choose(weights, random.Random(0))
    with pytest.raises(ConfigError, match="1 models and 2 weights"):
        Ensemble([ScriptedModel(["x"])], [1.0, 1.0])


def test_several_models_by_their_weights(tmp_path):
    file = tmp_path / "a.jsonl"
    file.write_text('"hello"\n')
    models = open_models([f"scripted:{file},weight=3,temperature=0.1", f"scripted:{file}"])
    assert models.names == ("scripted:a.jsonl", "scripted:a.jsonl#2") and models.weights == (3.0, 1.0)
    assert models[0].sampling.temperature == 0.1 and len(models) == 2
    assert models.pick(random.Random(1)) == choose(models.weights, random.Random(1))
    models.close()


def test_opening_several_closes_those_already_open(tmp_path, monkeypatch):
    closed = []
    monkeypatch.setattr(ScriptedModel, "close", lambda self: closed.append(self.name))
    file = tmp_path / "a.jsonl"
    file.write_text('"hello"\n')
    with pytest.raises(ConfigError, match="cannot read the script"):
        open_models([f"scripted:{file}", f"scripted:{tmp_path}/none.jsonl"])
    assert closed == ["scripted:a.jsonl"]
    with pytest.raises(ConfigError, match="unknown kind"):
        open_model("nothing:x")
