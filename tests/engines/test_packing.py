"""Packs against plain sequences: the same rows, the same numbers, to the noise of floats."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coevo.engines.packing import Item, arrange, pack_count, plan
from coevo.engines.types import LossConfig
from tests.engines.conftest import gradients, rows_of, shifted, spread

torch = pytest.importorskip("torch", reason="torch is not installed (extra: local)")


@st.composite
def item_lists(draw):
    """Rows of a few groups; the last tokens of a row, or all of them, may be unwanted."""
    items = []
    for group in range(draw(st.integers(1, 4))):
        prompt = np.arange(draw(st.integers(1, 30))) + 1000 * group
        for _ in range(draw(st.integers(1, 6))):
            reply = np.array(draw(st.lists(st.integers(1, 500), max_size=30)), np.int64)
            wanted = np.flatnonzero([draw(st.booleans()) for _ in reply])
            items.append(Item(np.concatenate([prompt, reply]).astype(np.int64), len(prompt), wanted))
    return items


@settings(max_examples=60, deadline=None)
@given(item_lists(), st.integers(1, 400), st.sampled_from([1e-6, 1e-3, 0.1]), st.booleans())
def test_every_wanted_token_is_computed_once_from_what_precedes_it(items, micro_tokens, pair_cost, pack):
    micros = [arrange(items, packs) for packs in plan(items, micro_tokens=micro_tokens, pair_cost=pair_cost, pack=pack)]
    seen = []
    for micro in micros:
        packs, length = micro.ids.shape
        longest = max(items[i].prompt + items[i].reply for i in micro.items)
        assert packs * length <= max(micro_tokens, longest)
        for source, target, row, column in zip(micro.source, micro.targets, micro.row, micro.column, strict=True):
            item = items[micro.items[row]]
            b, at = divmod(source, length)
            if micro.segments is None:
                visible = np.arange(at + 1)
            else:
                own = micro.segments[b, : at + 1]
                visible = np.flatnonzero((own == 0) | (own == own[-1]))
            # what the predicting token may look at, itself the last, is the row up to the target, at the row's own positions
            assert micro.ids[b, visible].tolist() == item.ids[: item.prompt + column].tolist()
            assert micro.segments is None or micro.positions[b, visible].tolist() == list(range(item.prompt + column))
            assert target == item.ids[item.prompt + column]
            seen.append((micro.items[row], column))
    assert sorted(seen) == [(i, int(c)) for i, item in enumerate(items) for c in item.wanted]


def test_the_cut_of_a_group_follows_the_cost():
    plain = {"micro_tokens": 100_000, "pair_cost": 1e-4}
    assert pack_count([40] * 8, 200, **plain) == 1  # a long prompt: share it
    assert (
        pack_count([40] * 8, 1, micro_tokens=100_000, pair_cost=0.1) == 8
    )  # nothing to share: attention would only cost
    assert 1 < pack_count([1000] * 64, 3000, **plain) < 64
    assert pack_count([100] * 8, 100, micro_tokens=500, pair_cost=1e-6) == 2  # memory bounds a pack
    assert pack_count([10], 5, **plain) == 1


def test_longest_first_and_padding_bounded():
    items = [Item(np.arange(n + 1), 1, np.arange(n)) for n in (900, 30, 800, 700, 20, 10)]
    found = plan(items, micro_tokens=2000, pair_cost=1e-3, pack=False)
    assert [[p.length for p in packs] for packs in found] == [[900, 800], [700], [30, 20, 10]]


@pytest.mark.parametrize("loss", [LossConfig(), LossConfig(name="gspo"), LossConfig(kl=0.1, entropy=0.02)], ids=str)
@pytest.mark.parametrize("micro_tokens", [16_384, 100])
def test_gradients_of_packs_are_those_of_plain_sequences(opened, loss, micro_tokens):
    packed, plain = opened(micro_tokens=micro_tokens), opened(pack=False)
    assert packed.capabilities.details["packs"] == "on"
    rows = shifted(rows_of(plain, size=5))
    rows[2] = replace(rows[2], trained=tuple(j % 4 != 1 for j in range(len(rows[2].trained))))
    a, b = packed.forward_backward(rows, loss), plain.forward_backward(rows, loss)
    assert a.loss == pytest.approx(b.loss, rel=1e-5, abs=1e-6) and a.tokens == b.tokens
    assert (a.entropy, a.ratio_max, a.clipped_low) == pytest.approx((b.entropy, b.ratio_max, b.clipped_low), rel=1e-5)
    assert spread(gradients(packed), gradients(plain)) < 2e-5


def test_packs_are_used_and_save_tokens(opened):
    engine = opened()
    rows = rows_of(engine, groups=1, size=6)
    items = [Item(np.array(r.token_ids), r.prompt_tokens, np.arange(len(r.trained))) for r in rows]
    ((packs,),) = [engine._plan(items, engine._policy.network)]
    assert len(packs) == 1 and len(packs[0].members) == 6


def test_a_window_forbids_packs(base, tmp_path):
    from transformers import AutoTokenizer, MistralConfig, MistralForCausalLM

    from coevo.engines.opening import open_engine

    config = MistralConfig(
        vocab_size=320, hidden_size=32, intermediate_size=64, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=2, sliding_window=8, max_position_embeddings=128,
    )  # fmt: skip
    MistralForCausalLM(config).save_pretrained(tmp_path / "m")
    AutoTokenizer.from_pretrained(base).save_pretrained(tmp_path / "m")
    engine = open_engine(tmp_path / "m", folder=tmp_path / "s")
    assert "window 8" in engine.capabilities.details["packs"]
    rows = rows_of(engine)
    assert engine.forward_backward(rows, LossConfig()).logprob_gap_max < 1e-4


@pytest.mark.parametrize("softcap", [None, 5.0])
def test_models_whose_head_is_more_than_a_matrix(base, tmp_path, softcap):
    from transformers import AutoTokenizer, Gemma2Config, Gemma2ForCausalLM

    from coevo.engines.opening import open_engine

    config = Gemma2Config(
        vocab_size=320, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2, head_dim=16,
        num_key_value_heads=2, max_position_embeddings=128, final_logit_softcapping=softcap, initializer_range=0.5,
    )  # fmt: skip
    Gemma2ForCausalLM(config).save_pretrained(tmp_path / "m")
    AutoTokenizer.from_pretrained(base).save_pretrained(tmp_path / "m")
    engine = open_engine(tmp_path / "m", folder=tmp_path / "s")
    assert engine.capabilities.details["head"] == ("the model's own" if softcap else "fused")
    stats = engine.forward_backward(rows_of(engine, temperature=0.8), LossConfig(entropy=0.01))
    assert stats.logprob_gap_max < 1e-4 and stats.entropy > 0


def test_the_fused_head_is_the_plain_formula(monkeypatch):
    """Values and gradients in float64 against autograd, with probabilities kept and computed again, in chunks of two rows."""
    from coevo.engines import heads

    generator = torch.Generator().manual_seed(3)
    hidden, weight = (torch.randn(n, 6, generator=generator, dtype=torch.float64) for n in (7, 11))
    targets = torch.randint(11, (7,), generator=generator)
    scale = torch.linspace(0.5, 2, 7, dtype=torch.float64)
    slopes = torch.randn(2, 7, generator=generator)

    def run(function):
        h, w = hidden.float().requires_grad_(), weight.float().requires_grad_()
        logp, entropy = function(h, w)
        (logp * slopes[0] + entropy * slopes[1]).sum().backward()
        return [t.detach().double() for t in (logp, entropy, h.grad, w.grad)]

    def plain(h, w):
        logs = torch.log_softmax(h.double() @ w.double().T * scale[:, None], -1)
        return logs.gather(1, targets[:, None])[:, 0], -(logs.exp() * logs).sum(-1)

    expected = run(plain)
    monkeypatch.setattr(heads, "CHUNK_BYTES", 2 * 11 * 4)
    for keep in (1 << 30, 0):
        monkeypatch.setattr(heads, "KEEP_BYTES", keep)
        got = run(lambda h, w: heads.token_stats(h, w, targets, scale.float(), compute=torch.float32))
        for a, b in zip(got, expected, strict=True):
            assert torch.allclose(a, b, rtol=1e-5, atol=1e-5)
