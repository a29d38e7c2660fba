"""Pre-training: the same weights from the same settings, a folder that everything loads, and a policy that can be improved."""

from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from coevo.errors import ConfigError, ModelError, UsageError
from coevo.evolution.edits import apply_rewrite
from coevo.evolution.prompt import build_messages
from coevo.evolution.types import Context, Edit, Rejection
from coevo.mini.corpus import CorpusConfig, attempt_of
from coevo.mini.families import draw_puzzle, family_named
from coevo.mini.pretrain import SIZES, PretrainConfig, batches, mini_folder, new_model, packed_loss, pretrain, rate
from coevo.mini.tokens import make_tokenizer, view_of
from coevo.models import open_model
from coevo.models.types import Request, StopReason
from coevo.programs import Program
from coevo.streams import stream

FEW = SIZES["tiny"].model_copy(update={"steps": 3, "hidden": 32})


@pytest.fixture
def cache(tmp_path, monkeypatch) -> Path:
    monkeypatch.setenv("COEVO_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture(scope="module")
def tiny(tmp_path_factory) -> Path:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COEVO_CACHE", str(tmp_path_factory.mktemp("cache")))
        return mini_folder("tiny")


def weights(folder: Path) -> bytes:
    return (folder / "model.safetensors").read_bytes()


def test_equal_settings_give_equal_weights_and_others_do_not(cache, tmp_path):
    first = pretrain(tmp_path / "a", config=FEW)
    (found,) = (cache / "models").glob("mini-*")
    assert weights(first) == weights(found)
    stamp = found.stat().st_mtime_ns
    assert pretrain(config=FEW) == found
    assert found.stat().st_mtime_ns == stamp, "what is done is not done again"

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COEVO_CACHE", str(tmp_path / "other"))
        again = pretrain(config=FEW)
    assert again.name == found.name
    assert weights(again) == weights(first)

    for changed in ({"seed": 1}, {"lr": 1e-3}, {"corpus": CorpusConfig(listed=0.9)}):
        other = pretrain(config=FEW.model_copy(update=changed))
        assert other.name != found.name
        assert weights(other) != weights(found)


def test_exercises_come_first_and_habits_are_learnt_at_a_smaller_rate():
    config = FEW.model_copy(update={"steps": 40, "exercises": 35, "batch": 2, "warmup": 4, "habits": 0.1})
    answers = [{len(replies) for _, replies in rows} for rows in batches(config, make_tokenizer())]
    assert len(answers) == 40
    assert answers == [{1}] * 35 + [{6}] * 5
    rates = [rate(config, step) for step in range(1, 41)]
    assert rates[3] == 1 and rates[34] == pytest.approx(0.05)
    assert rates[35:] == pytest.approx([0.025, 0.05, 0.075, 0.1, 0.005])
    whole = config.model_copy(update={"exercises": 0})
    assert [rate(whole, step) for step in (4, 40)] == pytest.approx([1, 0.05])


def test_a_pretraining_that_is_interrupted_leaves_no_model(cache):
    def stop(_: str) -> None:
        if (cache / "models").is_dir() and "step" in _:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        pretrain(config=FEW.model_copy(update={"steps": 20}), notify=stop)
    assert not list((cache / "models").glob("*mini-*[0-9a-f]")), "neither a model nor a part of one"


def test_bad_settings_are_named(cache, tmp_path):
    with pytest.raises(UsageError, match=r"hidden = 40.*heads = 3"):
        pretrain(config=PretrainConfig(hidden=40))
    with pytest.raises(ConfigError, match=r"mini model 'minni'.*'mini'"):
        mini_folder("minni")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    with pytest.raises(UsageError, match="not empty"):
        pretrain(tmp_path / "full", config=FEW)
    cache.write_text("a file where the cache should be")
    with pytest.raises(ModelError, match="COEVO_CACHE"):
        pretrain(config=FEW)


def test_the_tiny_model_edits_carelessly_and_in_the_right_form(tiny):
    """What reinforcement starts from: replies parse, few copy, few improve, and the children differ."""
    puzzles = [draw_puzzle(family_named("chain4"), "test", stream(0, "policy", i)) for i in range(40)]
    requests = [
        Request(
            build_messages(view_of(p.statement), Context(attempt_of(p, p.start)), style=Edit.REWRITE),
            max_tokens=40,
            seed=8 * i + j,
        )
        for i, p in enumerate(puzzles)
        for j in range(4)
    ]
    model = open_model(f"local:{tiny}")
    try:
        replies = model.generate(requests)
    finally:
        model.close()
    made = [
        apply_rewrite(Program.of(puzzles[i // 4].source(puzzles[i // 4].start)), reply.text)
        for i, reply in enumerate(replies)
    ]
    assert sum(reply.stop_reason is StopReason.STOP for reply in replies) > 0.9 * len(replies)
    parsed = [m for m in made if m.program is not None]
    copies = [m for m in made if m.rejection is Rejection.UNCHANGED]
    assert len(parsed) + len(copies) > 0.85 * len(made)
    assert len(copies) < 0.5 * len(made)
    assert len({m.program.id for m in parsed if m.program is not None}) > 0.5 * len(parsed)


def test_replies_packed_side_by_side_cost_what_they_cost_alone(cache):
    import torch

    tokenizer = make_tokenizer()
    model = new_model(FEW, tokenizer).eval()
    rows = next(batches(FEW.model_copy(update={"batch": 4}), tokenizer))
    with torch.no_grad():
        both, replies = packed_loss(model, rows, 0.5)
        prompt_nats, reply_nats = [], []
        for prompt, answers in rows:
            logits = model(input_ids=torch.tensor([prompt])).logits[0, :-1]
            prompt_nats += torch.nn.functional.cross_entropy(
                logits, torch.tensor(prompt[1:]), reduction="none"
            ).tolist()
            for answer in answers:
                logits = model(input_ids=torch.tensor([prompt + answer])).logits[0, len(prompt) - 1 : -1]
                reply_nats += torch.nn.functional.cross_entropy(logits, torch.tensor(answer), reduction="none").tolist()
    assert float(replies) == pytest.approx(sum(reply_nats) / len(reply_nats), rel=1e-5)
    whole = (0.5 * sum(prompt_nats) + sum(reply_nats)) / (0.5 * len(prompt_nats) + len(reply_nats))
    assert float(both) == pytest.approx(whole, rel=1e-5)
