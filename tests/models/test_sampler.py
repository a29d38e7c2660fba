"""The draw itself: the right distribution, and the right cut."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch", reason="torch is not installed (extra: local)")

from coevo.models import sampler  # noqa: E402
from coevo.models.sampler import Prompt, draw  # noqa: E402


def frequencies(logits, count=20_000, **options):
    generator = torch.Generator().manual_seed(1)
    uniforms = torch.rand(count, generator=generator, dtype=torch.float64).tolist()
    rows = torch.tensor(logits)[None, :].expand(count, -1)
    tokens, _ = draw(rows, [Prompt((0,), 1, **options)] * count, uniforms)
    return [tokens.count(i) / count for i in range(len(logits))]


def test_frequencies_are_the_softmax_at_the_temperature():
    logits = [1.0, 0.0, -1.0, 2.0, float("-inf")]
    for temperature in (1.0, 0.5, 2.0):
        expected = torch.softmax(torch.tensor(logits) / temperature, 0).tolist()
        assert frequencies(logits, temperature=temperature) == pytest.approx(expected, abs=0.012)


def test_frequencies_within_the_nucleus():
    # probabilities 0.5, 0.3, 0.15, 0.05: 0.7 of the mass is in the first two
    logits = torch.log(torch.tensor([0.15, 0.5, 0.05, 0.3])).tolist()
    assert frequencies(logits, top_p=0.7) == pytest.approx([0, 0.625, 0, 0.375], abs=0.012)
    assert frequencies(logits, count=100, top_p=1e-9) == [0, 1, 0, 0]
    assert frequencies(logits, count=100, temperature=0.0, top_p=0.5) == [0, 1, 0, 0]


rows = st.lists(st.floats(-30, 30, width=32), min_size=1, max_size=40)


@settings(max_examples=200)
@given(rows, st.floats(0.01, 1.0), st.floats(0, 1, exclude_max=True), st.floats(0.05, 4))
def test_every_draw_is_in_the_nucleus_and_has_its_logprob(logits, top_p, uniform, temperature):
    tokens, logprobs = draw(torch.tensor([logits]), [Prompt((0,), 1, temperature, top_p)], [uniform])
    logp = torch.log_softmax(torch.tensor(logits) / temperature, 0)
    likelier = logp[logp > logp[tokens[0]]].double().exp().sum().item()
    assert likelier < top_p + 1e-6
    assert logprobs[0] == pytest.approx(logp[tokens[0]].item(), abs=1e-6)


@settings(max_examples=100)
@given(st.lists(st.booleans(), min_size=2, max_size=12).filter(any), st.floats(0, 1))
def test_what_has_no_probability_is_never_drawn(possible, uniform):
    logits = torch.tensor([[0.0 if p else float("-inf") for p in possible]])
    tokens, _ = draw(logits, [Prompt((0,), 1)], [min(uniform, 1 - 2**-53)])
    assert possible[tokens[0]]


def test_a_large_flat_vocabulary_needs_the_full_sort(monkeypatch):
    monkeypatch.setattr(sampler, "_HEAD", 4)
    assert frequencies([0.0] * 10, top_p=0.95) == pytest.approx([0.1] * 10, abs=0.012)


def test_the_shared_prefix():
    common = sampler._common
    assert common([(1, 2, 3), (1, 2, 4), (1, 2)]) == 2
    assert common([(1, 2), (1, 2)]) == 2 and common([(1,), (2,)]) == 0 and common([(5, 6, 7)]) == 3
