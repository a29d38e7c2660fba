"""Decoding with shared prompts against decoding without: the same tokens, the same log-probabilities."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed (extra: local)")
pytest.importorskip("transformers", reason="transformers is not installed (extra: local)")

from coevo.models import shared  # noqa: E402
from coevo.models.sampler import Prompt, sample  # noqa: E402
from tests.models import tiny  # noqa: E402


def both(model, prompts, **options):
    return [
        sample(model, prompts, ends={5, 9}, decode=lambda ids: "", share=share, **options) for share in (False, True)
    ]


def prompt_of(length: int, start: int = 3) -> tuple[int, ...]:
    return tuple((start * 31 + 7 * i) % 300 for i in range(length))


@pytest.mark.parametrize(
    "sizes",
    [[(20, 6)], [(20, 4), (20, 4), (20, 4)], [(30, 1), (5, 7), (17, 3), (1, 5)], [(40, 2), (40, 2)]],
    ids=["one", "even", "uneven", "pairs"],
)
def test_the_same_tokens_and_logprobs(sizes):
    """Groups even and uneven, interleaved, of prompts of unlike length; rows end at different times, whole groups too."""
    model = tiny.make_model(320, seed=4)
    prompts = [
        Prompt(prompt_of(length, start=g), 3 + (5 * i + 11 * g) % 40, temperature=0.9, top_p=0.97, seed=100 * g + i)
        for g, (length, count) in enumerate(sizes)
        for i in range(count)
    ]
    prompts = sorted(prompts, key=lambda p: p.seed % 100)  # groups interleaved
    plain, together = both(model, prompts)
    assert [s.token_ids for s in together] == [s.token_ids for s in plain]
    for a, b in zip(plain, together, strict=True):
        assert a.logprobs == pytest.approx(b.logprobs, abs=1e-5)
    assert len({len(s.token_ids) for s in plain}) > 1


def test_it_really_shares_and_leaves_the_model_as_it_was(monkeypatch):
    model = tiny.make_model(320)
    seen = []
    attend = shared.SharedLayer.attend
    monkeypatch.setattr(
        shared.SharedLayer, "attend", lambda self, *a: seen.append(self._prompt[0].shape) or attend(self, *a)
    )
    prompts = [Prompt(prompt_of(12, start=i // 4), 4, seed=i) for i in range(8)]
    both(model, prompts)
    assert seen and all(shape[0] == 2 for shape in seen[:4])
    assert model.config._attn_implementation == "sdpa"
    seen.clear()
    both(model, [Prompt(prompt_of(12, start=i), 4, seed=i) for i in range(4)])
    assert not seen  # nothing to share


def test_models_whose_attention_is_their_own_are_left_alone():
    from transformers import MistralConfig, MistralForCausalLM

    assert shared.supports(tiny.make_model(320))
    small = {
        "hidden_size": 32,
        "intermediate_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "num_key_value_heads": 1,
    }
    assert not shared.supports(MistralForCausalLM(MistralConfig(vocab_size=64, sliding_window=8, **small)))
    assert shared.supports(MistralForCausalLM(MistralConfig(vocab_size=64, sliding_window=None, **small)))


def test_an_error_while_decoding_leaves_the_model_as_it_was():
    model = tiny.make_model(320)
    with pytest.raises(ZeroDivisionError):
        sample(
            model,
            [Prompt(prompt_of(4), 9, seed=i) for i in range(4)],
            ends=(),
            decode=str,
            share=True,
            each=lambda i, s: 1 / 0,
        )
    assert model.config._attn_implementation == "sdpa"
