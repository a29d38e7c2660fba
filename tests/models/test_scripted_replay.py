"""Scripted and replayed replies."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coevo.errors import ConfigError, ModelError, StoreError
from coevo.models import Completion, Message, Request, Sampling, StopReason, open_model
from coevo.models.record import from_payload, request_digest, to_payload
from coevo.models.scripted import Scripted, ScriptedModel, read_script, write_script
from coevo.runs import Run


def req(key: str, text: str = "hello", seed: int = 0) -> Request:
    return Request((Message("user", text),), key=key, seed=seed)


def test_by_key_then_from_the_pool_whatever_the_order_and_the_threads():
    model = ScriptedModel([Scripted("for three", key="step-3"), "a", "b", "c"])
    requests = [req(f"step-{i}") for i in range(60)]
    alone = {r.key: model.generate([r])[0].text for r in reversed(requests)}
    with ThreadPoolExecutor(8) as pool:
        together = dict(pool.map(lambda r: (r.key, model.generate([r])[0].text), requests))
    assert alone == together and alone["step-3"] == "for three"
    assert set(alone.values()) == {"for three", "a", "b", "c"}


def test_by_number():
    spec = open_model_spec("order=number")
    model = ScriptedModel(["zero", "one", "two"], spec=spec)
    assert [model.generate([req(f"run-7/step-{i}")])[0].text for i in range(4)] == ["zero", "one", "two", "zero"]


def open_model_spec(options: str):
    from coevo.models import parse_spec

    return parse_spec(f"scripted:x,{options}")


def test_failures_refusals_cuts_and_prices():
    script = [
        Scripted(key="f", error="down"),
        Scripted("I cannot", key="r", stop_reason=StopReason.REFUSAL),
        Scripted("half", key="l", stop_reason=StopReason.LENGTH),
        Scripted("good", key="g", prompt_tokens=100, completion_tokens=50, delay_s=0.01),
    ]
    model = ScriptedModel(script, spec=open_model_spec("price_in=1,price_out=2"))
    replies = {key: model.generate([req(key)])[0] for key in "frlg"}
    assert [replies[key].stop_reason for key in "frlg"] == [
        StopReason.FAILED,
        StopReason.REFUSAL,
        StopReason.LENGTH,
        StopReason.STOP,
    ]
    assert (replies["f"].error, replies["f"].cost_usd, replies["f"].prompt_tokens) == ("down", 0, 0)
    assert replies["g"].cost_usd == pytest.approx(200e-6) and not replies["g"].estimated and replies["r"].estimated
    with pytest.raises(ModelError, match="no reply for the key 'x'"):
        model.generate([req("x")])


def test_a_function_of_the_request():
    model = ScriptedModel(lambda request: request.messages[-1].content.upper())
    assert [r.text for r in model.generate([req("a", "x"), req("b", "y")])] == ["X", "Y"]


def test_files_are_read_back(tmp_path):
    path = tmp_path / "s.jsonl"
    script = [
        Scripted("", key="k"),
        Scripted("t\n\u2028", delay_s=0.5),
        Scripted(error="e", stop_reason=StopReason.FAILED),
    ]
    write_script(path, script)
    assert read_script(path) == script
    assert open_model(f"scripted:{path},max_tokens=5").sampling == Sampling(max_tokens=5)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", "is not JSON"),
        ("[1]", "object or string"),
        ('{"txt": "a"}', "unknown field 'txt'"),
        ('{"text": 3}', "text = 3 has the wrong type"),
        ('{"text": "a", "delay_s": -1}', "negative"),
        ('{"text": "a", "stop_reason": "tired"}', "unknown stop_reason 'tired'"),
        ('{"key": "a"}', "neither text nor error"),
    ],
)
def test_a_bad_line_is_named(tmp_path, line, words):
    path = tmp_path / "s.jsonl"
    path.write_text('"fine"\n\n' + line + "\n")
    with pytest.raises(ConfigError, match="line 3") as caught:
        open_model(f"scripted:{path}")
    assert words in str(caught.value)


def test_an_empty_or_doubled_script_is_refused(tmp_path):
    with pytest.raises(ConfigError, match="empty"):
        ScriptedModel([])
    with pytest.raises(ConfigError, match="same key"):
        ScriptedModel([Scripted("a", key="k"), Scripted("b", key="k")])


completions = st.builds(
    Completion,
    text=st.text(),
    stop_reason=st.sampled_from(StopReason),
    model=st.text(),
    prompt_tokens=st.integers(0, 9),
    cost_usd=st.floats(0, 1),
    error=st.text(),
    token_ids=st.none() | st.lists(st.integers(0, 9)).map(tuple),
    logprobs=st.none() | st.lists(st.floats(-9, 0)).map(tuple),
    estimated=st.booleans(),
    reasoning=st.text(),
)


@given(completions)
def test_a_stored_completion_comes_back(completion):
    import json

    assert from_payload(json.loads(json.dumps(to_payload(completion, req("k"))))) == completion


def test_what_is_no_completion_is_refused():
    for payload in ({}, {"text": "x"}, {"text": "x", "model": "m", "stop_reason": "odd"}):
        with pytest.raises(StoreError, match="not a stored completion"):
            from_payload(payload)


def test_a_digest_is_of_messages_and_seed():
    a = req("k", "x", 1)
    assert request_digest(a) == request_digest(replace(a, key="other", max_tokens=1))
    assert len({request_digest(r) for r in (a, req("k", "y", 1), req("k", "x", 2))}) == 3


def test_a_recorded_run_answers_again(tmp_path):
    asked = [req(f"step-{i}", f"prompt {i}", seed=i) for i in range(3)]
    original = ScriptedModel(["a", "b", Scripted("no", stop_reason=StopReason.REFUSAL)])
    replies = original.generate(asked)
    with Run.create(tmp_path / "run", kind="test", config={}) as run:
        for request, reply in zip(asked, replies, strict=True):
            with run.transaction():
                run.put_completion(request.key, to_payload(reply, request))
                run.append("replied", {"completion": request.key}, step=0)
    model = open_model(f"replay:{tmp_path}/run")
    found = []
    thread = threading.Thread(target=lambda: found.extend(model.generate(asked)))
    thread.start()
    thread.join()
    assert found == replies
    with pytest.raises(ModelError, match="recorded no reply for 'step-9'"):
        model.generate([req("step-9")])
    with pytest.raises(ModelError, match="'step-1' to another prompt or seed"):
        model.generate([replace(asked[1], seed=99)])
    model.close()


def test_replaying_what_is_no_run(tmp_path):
    with pytest.raises(StoreError):
        open_model(f"replay:{tmp_path}/none")
