"""Messages and tokens as `local` has them; the policy as a model that answers as `local` does."""

from __future__ import annotations

import threading

import pytest

from coevo.engines.model import EngineModel
from coevo.engines.types import LossConfig, OptimConfig
from coevo.errors import ModelError
from coevo.models import Message, Request, Sampling, StopReason, open_model
from coevo.models.local import LocalModel
from tests.engines.conftest import rows_of
from tests.models import tiny

torch = pytest.importorskip("torch", reason="torch is not installed (extra: local)")

CHATS = [
    (Message("user", "def f(x):"),),
    (
        Message("system", "You write Python."),
        Message("user", "print <|im_end|> ten"),
        Message("assistant", "no"),
        Message("user", "do"),
    ),
    (Message("user", "lone \ud800 surrogate"),),
]


@pytest.fixture
def plain_base(tmp_path):
    """The tiny model with a tokenizer that has no chat template."""
    tokenizer = tiny.make_tokenizer(template=None)
    tiny.make_model(len(tokenizer)).save_pretrained(tmp_path / "plain")
    tokenizer.save_pretrained(tmp_path / "plain")
    return tmp_path / "plain"


@pytest.mark.parametrize("chat", CHATS, ids=["short", "long", "surrogate"])
@pytest.mark.parametrize("template", [True, False])
def test_the_ids_are_those_of_a_local_model(opened, base, plain_base, chat, template):
    folder = base if template else plain_base
    engine = opened(at=folder)
    with open_model(f"local:{folder}") as local:
        assert isinstance(local, LocalModel)
        assert engine.codec.encode_chat(chat) == local._prompt(Request(chat)).ids
        assert engine.codec.ends == local._ends and engine.codec.stops == local._stop


@pytest.mark.parametrize("ended", [True, False])
def test_a_conversation_goes_on_as_the_template_writes_it(opened, ended):
    """Prompt, reply and what follows decode to the whole conversation, rendered at once; ids of the reply are not touched."""
    codec = opened().codec
    question, reply, more = Message("user", "def f(x):"), "return x + 1", Message("user", "reply: now print(i)")
    sampled = codec.encode(reply) + ((2,) if ended else ())
    ids = codec.encode_chat([question]) + sampled + codec.encode_next(more, ended=ended)
    assert ids == codec.encode_chat([question, Message("assistant", reply), more])


def test_a_conversation_without_a_template(opened, plain_base):
    codec = opened(at=plain_base).codec
    ids = (
        codec.encode_chat([Message("user", "a")])
        + codec.encode(" b")
        + codec.encode_next(Message("user", "c"), ended=False)
    )
    assert codec.decode(ids) == "User: a\n\nAssistant: b\n\nUser: c\n\nAssistant:"


def test_a_template_that_drops_earlier_replies_is_refused(opened, base):
    engine = opened()
    engine._policy._tokenizer.chat_template = (
        "{% for m in messages %}{% if m['role'] == 'user' %}{{ m['content'] }}{% endif %}{% endfor %}"
    )
    with pytest.raises(ModelError, match="drops replies"):
        engine.codec.encode_next(Message("user", "x"), ended=True)


def test_the_tokenizer_may_come_without_the_weights(base, opened):
    from coevo.engines.codec import load_codec

    codec, own = load_codec(base), opened().codec
    assert codec.ends == own.ends and codec.encode_chat(CHATS[1]) == own.encode_chat(CHATS[1])


def requests(count: int = 7) -> list[Request]:
    texts = ["def f(x):", "print", "for i in range(10):\n    print(i)"]
    found = [
        Request((Message("user", texts[i % 3]),), max_tokens=16, temperature=0.9, top_p=0.95, seed=i)
        for i in range(count)
    ]
    return [
        *found,
        Request((Message("user", "x" * 400),)),
        Request((Message("user", "a"),), max_tokens=0),
        Request((Message("user", "a"),), stop=("e",), max_tokens=30, seed=3),
    ]


@pytest.mark.parametrize("template", [True, False])
def test_the_policy_answers_as_its_saved_folder_does(opened, base, plain_base, template):
    engine = opened(at=base if template else plain_base)
    engine.forward_backward(rows_of(engine), LossConfig())
    engine.optim_step(3e-3, OptimConfig())
    policy = EngineModel(engine, Sampling(16), batch=4)
    with open_model(f"local:{engine.save('s')},batch=4,device=cpu") as local:
        mine, theirs = policy.generate(requests()), local.generate(requests())
        assert policy.context == local.context and policy.count_tokens("def f") == local.count_tokens("def f")
    for a, b in zip(mine, theirs, strict=True):
        assert (a.text, a.token_ids, a.stop_reason, a.prompt_tokens, a.error) == (
            b.text, b.token_ids, b.stop_reason, b.prompt_tokens, b.error,
        )  # fmt: skip
        # the last bits may differ: the same weights lie at other addresses
        assert a.logprobs == (None if b.logprobs is None else pytest.approx(b.logprobs, abs=1e-5))
    assert {c.stop_reason for c in mine} >= {StopReason.LENGTH, StopReason.FAILED}
    assert "the context is 256" in mine[7].error and mine[0].model == "policy"


def test_many_threads_may_ask(opened):
    policy = EngineModel(opened())
    expected = policy.generate(requests(3))
    found: list = [None] * 4
    threads = [
        threading.Thread(target=lambda i=i: found.__setitem__(i, policy.generate(requests(3)))) for i in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for replies in found:
        assert [r.token_ids for r in replies] == [r.token_ids for r in expected]
