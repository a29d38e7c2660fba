"""The torch engine's primitives: sampler and trainer agree, gradients add up, the edges end in a clear word."""

from __future__ import annotations

import functools
import math
from dataclasses import replace

import pytest

from coevo.engines.torch_engine import sample_batches
from coevo.engines.types import LossConfig, OptimConfig, Prompt, Row
from coevo.errors import ConfigError, ModelError
from tests.engines.conftest import gradients, prompts_of, rows_of, shifted, spread, weights_of

torch = pytest.importorskip("torch", reason="torch is not installed (extra: local)")


@pytest.mark.parametrize("temperature", [1.0, 0.6, 1.5])
def test_sampler_and_trainer_agree(opened, temperature):
    engine = opened()
    rows = rows_of(engine, temperature=temperature, size=6, new=30)
    stats = engine.forward_backward(rows, LossConfig())
    assert stats.logprob_gap_max < 1e-4 and stats.logprob_gap_mean < 1e-5
    assert stats.ratio_mean == pytest.approx(1, abs=1e-5) and stats.clipped_low == stats.clipped_high == 0
    scored = engine.logprobs(
        [r.token_ids for r in rows], prompt_tokens=[r.prompt_tokens for r in rows], temperature=temperature
    )
    for row, values in zip(rows, scored, strict=True):
        assert values == pytest.approx(row.logprobs, abs=1e-4)


def test_the_loss_is_the_formula_by_hand(opened):
    """dapo on three rows of different length, with a clipped token on each side, worked out from the log-probabilities."""
    engine = opened()
    rows = shifted(rows_of(engine, groups=1, size=3))
    scored = engine.logprobs([r.token_ids for r in rows], prompt_tokens=[r.prompt_tokens for r in rows])
    total, tokens, high, low = 0.0, 0, 0, 0
    for row, values in zip(rows, scored, strict=True):
        for new, old, a in zip(values, row.logprobs, row.advantages, strict=True):
            ratio = math.exp(new - old)
            total -= min(ratio * a, min(max(ratio, 0.8), 1.28) * a)
            tokens, high, low = tokens + 1, high + (ratio > 1.28 and a > 0), low + (ratio < 0.8 and a < 0)
    stats = engine.forward_backward(rows, LossConfig(name="dapo"))
    assert stats.loss == pytest.approx(total / tokens, abs=1e-5) and stats.tokens == tokens and stats.rows == 3
    assert (stats.clipped_high, stats.clipped_low) == pytest.approx((high / tokens, low / tokens)) and high and low


def test_the_gradient_is_the_slope_of_the_loss(opened):
    """Against differences of the loss along a random direction."""
    for loss in (LossConfig(entropy=0.1), LossConfig(name="cross_entropy"), LossConfig(name="importance_sampling")):
        engine = opened()
        rows = shifted(rows_of(engine, groups=2, size=3), by=0.05)
        engine.forward_backward(rows, loss)
        generator = torch.Generator().manual_seed(1)
        direction = {n: torch.randn(p.shape, generator=generator) for n, p in engine.module.named_parameters()}
        slope = sum(float((gradients(engine)[n] * d).sum()) for n, d in direction.items())
        values = []
        for sign in (1, -1):
            with torch.no_grad():
                for name, parameter in engine.module.named_parameters():
                    parameter += sign * 1e-3 * direction[name]
                values.append(engine.forward_backward(rows, loss).loss)
                for name, parameter in engine.module.named_parameters():
                    parameter -= sign * 1e-3 * direction[name]
        assert slope == pytest.approx((values[0] - values[1]) / 2e-3, rel=0.02, abs=1e-3)


def test_gradients_add_up_until_the_step(opened):
    engine, other = opened(), opened()
    rows = rows_of(engine)
    loss = LossConfig(name="importance_sampling")  # a sum: halves add up to the whole
    engine.forward_backward(rows[:5], loss)
    engine.forward_backward(rows[5:], loss)
    other.forward_backward(rows, loss)
    assert spread(gradients(engine), gradients(other)) < 2e-5
    engine.optim_step(1e-3, OptimConfig())
    assert not gradients(engine) and engine.version == 1


def test_a_step_raises_what_was_rewarded(opened):
    engine = opened()
    rows = [replace(r, advantages=((1.0 if i % 2 else -1.0),) * len(r.trained)) for i, r in enumerate(rows_of(engine))]
    where = {"prompt_tokens": [r.prompt_tokens for r in rows]}
    before = engine.logprobs([r.token_ids for r in rows], **where)
    engine.forward_backward(rows, LossConfig())
    step = engine.optim_step(3e-4, OptimConfig())
    assert step.applied and step.version == 1 and step.lr == 3e-4 and step.grad_norm > 0 and 0 < step.update_ratio < 0.1
    after = engine.logprobs([r.token_ids for r in rows], **where)
    change = [sum(a) - sum(b) for a, b in zip(after, before, strict=True)]
    assert sum(change[1::2]) > 0 > sum(change[::2])


def test_the_update_is_adamws(opened):
    """Against torch's own optimizer on copies of the weights, with decay and clipping; vectors do not decay."""
    engine = opened()
    config = OptimConfig(weight_decay=0.1, max_grad_norm=0.05)
    copies = {n: p.detach().clone().requires_grad_() for n, p in engine.module.named_parameters()}
    decays, rest = [p for p in copies.values() if p.ndim > 1], [p for p in copies.values() if p.ndim == 1]
    plain = torch.optim.AdamW(
        [{"params": decays, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}], betas=(0.9, 0.99)
    )
    for lr in (1e-3, 5e-4):
        start = weights_of(engine)
        engine.forward_backward(rows_of(engine), LossConfig())
        for name, gradient in gradients(engine).items():
            copies[name].grad = gradient
        torch.nn.utils.clip_grad_norm_(list(copies.values()), 0.05)
        for group in plain.param_groups:
            group["lr"] = lr
        plain.step()
        stats = engine.optim_step(lr, config)
        assert stats.grad_norm > 0.05
        now = dict(engine.module.named_parameters())
        assert spread({n: p.detach() for n, p in now.items()}, {n: p.detach() for n, p in copies.items()}) < 1e-6
        changed = math.sqrt(sum(float((p.detach() - start[n]).square().sum()) for n, p in now.items()))
        held = math.sqrt(sum(float(start[n].square().sum()) for n in now))
        assert stats.update_ratio == pytest.approx(changed / held, rel=1e-4)


def test_advantages_of_zero_push_nowhere_and_still_count(opened):
    engine, alone = opened(), opened()
    rows = rows_of(engine, groups=2)
    dead = [replace(r, advantages=(0.0,) * len(r.trained)) for r in rows[4:]]
    stats = engine.forward_backward(rows[:4] + dead, LossConfig())
    half = alone.forward_backward(rows[:4], LossConfig())
    assert stats.rows == 8 and stats.tokens > half.tokens
    assert stats.loss == pytest.approx(half.loss * half.tokens / stats.tokens, abs=1e-7)
    share = half.tokens / stats.tokens
    expected = {name: g * share for name, g in gradients(alone).items()}
    assert spread(gradients(engine), expected) < 2e-5
    engine.optim_step(1e-3, OptimConfig())
    nothing = engine.forward_backward(dead, LossConfig())
    assert nothing.loss == 0 and nothing.rows == 4
    before = weights_of(engine)
    assert not engine.optim_step(1e-3, OptimConfig()).applied and engine.version == 1
    assert all(torch.equal(before[k], v) for k, v in weights_of(engine).items())


@pytest.mark.parametrize(
    "what",
    [{"advantages": float("inf")}, {"advantages": float("nan")}, {"logprobs": -1e30}, {"logprobs": float("nan")}],
)
def test_a_row_that_is_no_number_is_left_out(opened, what):
    engine, without = opened(), opened()
    rows = rows_of(engine)
    n = len(rows[2].trained)
    spoilt = replace(rows[2], **{"advantages": (-1.0,) * n, **{field: (value,) * n for field, value in what.items()}})
    stats = engine.forward_backward([*rows[:2], spoilt, *rows[3:]], LossConfig(name="dr_grpo", length=20))
    assert (
        stats.skipped == 1
        and stats.rows == len(rows) - 1
        and math.isfinite(stats.loss)
        and math.isfinite(stats.ratio_max)
    )
    without.forward_backward(
        [*rows[:2], replace(rows[2], advantages=(0.0,) * n), *rows[3:]],
        LossConfig(name="dr_grpo", length=20),
    )
    assert spread(gradients(engine), gradients(without)) < 2e-5


def test_weights_that_are_no_numbers(opened):
    """Every row is skipped, no step is applied, sampling says what is wrong."""
    engine = opened()
    rows = rows_of(engine)
    with torch.no_grad():
        engine.module.get_input_embeddings().weight[:] = float("nan")
    stats = engine.forward_backward(rows, LossConfig())
    assert stats.skipped == len(rows) and stats.rows == 0 and stats.loss == 0
    assert not engine.optim_step(1e-3, OptimConfig()).applied
    with pytest.raises(ModelError, match="not numbers"):
        engine.sample(prompts_of(engine))


def test_one_token_that_spoils_only_its_own_row(opened):
    """A NaN in the embedding of one token: the rows with it are skipped, the others of their packs still count."""
    engine = opened()
    rows = rows_of(engine, groups=1, size=4)
    used = {t for r in rows[1:] for t in r.token_ids} | set(rows[0].token_ids[: rows[0].prompt_tokens])
    token = next(t for t in range(300) if t not in used)
    ids = list(rows[0].token_ids)
    ids[rows[0].prompt_tokens] = token
    with torch.no_grad():
        engine.module.config.tie_word_embeddings = False
        engine.module.lm_head.weight = torch.nn.Parameter(engine.module.lm_head.weight.clone())
        engine._policy.network = type(engine._policy.network)(engine.module, pack=True, compute=torch.float32)
        engine.module.get_input_embeddings().weight[token] = float("nan")
    stats = engine.forward_backward([replace(rows[0], token_ids=tuple(ids)), *rows[1:]], LossConfig())
    assert stats.skipped == 1 and stats.rows == 3
    assert all(torch.isfinite(g).all() for g in gradients(engine).values())


def test_a_gradient_that_is_not_finite_leaves_the_weights(opened):
    engine = opened()
    engine.forward_backward(rows_of(engine), LossConfig())
    next(iter(engine.module.parameters())).grad[0] = float("inf")
    before = weights_of(engine)
    stats = engine.optim_step(1e-3, OptimConfig())
    assert not stats.applied and stats.version == engine.version == 0
    assert all(torch.equal(before[k], v) for k, v in weights_of(engine).items()) and not gradients(engine)


def test_multi_turn_rows_train_only_what_was_sampled(opened):
    """Feedback tokens between two replies: changing their advantages or log-probabilities changes nothing."""
    engine, other = opened(), opened()
    row = rows_of(engine, groups=1, size=1, new=20)[0]
    n = len(row.trained)
    trained = tuple(not 5 <= j < 9 for j in range(n))
    row = replace(row, trained=trained)
    noisy = replace(
        row,
        advantages=tuple(a if t else 1e6 for a, t in zip(row.advantages, trained, strict=True)),
        logprobs=tuple(p if t else float("nan") for p, t in zip(row.logprobs, trained, strict=True)),
    )
    stats = engine.forward_backward([row], LossConfig())
    assert other.forward_backward([noisy], LossConfig()) == stats and stats.tokens == n - 4
    assert spread(gradients(engine), gradients(other)) == 0


def test_kl_to_the_base_pulls_back(opened):
    engine = opened()
    rows = rows_of(engine)
    assert engine.forward_backward(rows, LossConfig(kl=0.5)).kl == pytest.approx(0, abs=1e-6)
    engine.optim_step(3e-3, OptimConfig())
    rows = rows_of(engine)
    away = [engine.forward_backward(rows, LossConfig(kl=1.0, kl_estimator=k)).kl for k in ("k1", "k2", "k3")]
    assert min(away[1:]) > 1e-3
    engine.optim_step(0.0, OptimConfig())
    for _ in range(10):
        quiet = [replace(r, advantages=(0.0,) * len(r.trained)) for r in rows_of(engine)]
        engine.forward_backward(quiet, LossConfig(kl=1.0, kl_estimator="k2"))
        engine.optim_step(1e-3, OptimConfig())
    assert engine.forward_backward(rows_of(engine), LossConfig(kl=1.0)).kl < 0.5 * away[2]


def test_the_entropy_bonus_raises_entropy(opened):
    engine = opened()
    found = []
    for _ in range(6):
        rows = [replace(r, advantages=(0.0,) * len(r.trained)) for r in rows_of(engine)]
        found.append(engine.forward_backward(rows, LossConfig(entropy=1.0)).entropy)
        engine.optim_step(1e-3, OptimConfig())
    assert found[-1] > found[0] + 0.01


def test_memory_that_runs_out_is_asked_for_in_smaller_pieces(opened):
    """Passes above 120 tokens fail as torch fails: the batch is done in smaller ones, with the same gradient."""
    engine, roomy = opened(pack=False), opened(pack=False)
    rows = rows_of(roomy)
    forward, sizes = engine.module.model.forward, []

    def narrow(*args, **kwargs):
        sizes.append(kwargs["input_ids"].numel())
        if sizes[-1] > 120:
            raise torch.OutOfMemoryError("out of memory")
        return forward(*args, **kwargs)

    engine.module.model.forward = narrow
    stats, expected = engine.forward_backward(rows, LossConfig()), roomy.forward_backward(rows, LossConfig())
    assert max(sizes) > 120 >= sizes[-1] and stats.loss == pytest.approx(expected.loss, abs=1e-6)
    assert spread(gradients(engine), gradients(roomy)) < 2e-5
    engine._micro_tokens = 10_000
    with pytest.raises(ModelError, match="gradient was held"):
        engine.forward_backward(rows, LossConfig())
    engine.module.model.forward = lambda *a, **k: narrow(input_ids=torch.zeros(121))
    engine.optim_step(0.0, OptimConfig())
    with pytest.raises(ModelError, match="one row of"):
        engine.forward_backward(rows[:1], LossConfig())


def test_memory_that_runs_out_while_sampling(opened):
    engine = opened()
    prompts = prompts_of(engine)
    expected = engine.sample(prompts)
    forward = engine.module.forward

    @functools.wraps(forward)
    def narrow(*args, **kwargs):
        if kwargs["input_ids"].shape[0] > 7:
            raise torch.OutOfMemoryError("out of memory")
        return forward(*args, **kwargs)

    engine.module.forward = narrow
    told = {}
    found = engine.sample(prompts, each=told.__setitem__)
    assert [s.token_ids for s in found] == [s.token_ids for s in expected] and told == dict(enumerate(found))


def test_each_is_told_as_soon_as_a_row_ends(opened):
    engine = opened()
    prompts = [replace(p, max_new=2 + 3 * (i % 3)) for i, p in enumerate(prompts_of(engine))]
    told: list[int] = []
    found = engine.sample(prompts, each=lambda i, s: told.append(i))
    assert sorted(told) == list(range(len(prompts)))
    lengths = [len(found[i].token_ids) for i in told]
    assert lengths == sorted(lengths) and len(set(lengths)) > 1


def test_batches_keep_groups_together():
    prompts = [(1,)] * 3 + [(2, 2)] * 3 + [(3,)] * 3
    assert sample_batches(prompts, 9) == [list(range(9))]
    assert sample_batches(prompts, 6) == [[0, 1, 2, 6, 7, 8], [3, 4, 5]]
    assert sample_batches(prompts, 4) == [[0, 1, 2], [6, 7, 8], [3, 4, 5]]
    assert sample_batches(prompts, 2) == [[0, 1], [2], [6, 7], [8], [3, 4], [5]]
    assert sample_batches([], 4) == []


def test_small_batches_sample_what_a_large_one_does(opened):
    one, many = opened(sample_batch=3), opened()
    prompts = prompts_of(one, size=5)
    assert [s.token_ids for s in one.sample(prompts)] == [s.token_ids for s in many.sample(prompts)]


def test_products_in_bfloat16(opened):
    """Weights and loss stay float32; sampler and trainer compute alike, so they still agree roughly."""
    engine = opened(compute="bfloat16")
    assert engine.capabilities.details["compute"] == "bfloat16" and engine.capabilities.details["dtype"] == "float32"
    stats = engine.forward_backward(rows_of(engine), LossConfig(kl=0.1, entropy=0.1))
    assert stats.logprob_gap_mean < 0.02 and stats.skipped == 0
    exact = opened()
    exact.forward_backward(rows_of(exact), LossConfig())
    assert {str(g.dtype) for g in gradients(engine).values()} == {"torch.float32"}
    assert engine.optim_step(1e-3, OptimConfig()).applied


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (Row((1, 2, 3), 0, (), (), ()), "row 0: prompt_tokens = 0"),
        (Row((1, 2, 3), 2, (1.0, 1.0), (True,), (0.0,)), "2 advantages for 1"),
        (Row((1, 2, 99_999), 2, (1.0,), (True,), (0.0,)), "token 99999"),
        (Row((1, -2, 3), 2, (1.0,), (True,), (0.0,)), "token -2"),
        (Row((1,) * 300, 2, (1.0,) * 298, (True,) * 298, (0.0,) * 298), "300 tokens and the context is 256"),
    ],
)
def test_rows_that_cannot_be(opened, row, said):
    with pytest.raises(ConfigError, match=said):
        opened().forward_backward([row], LossConfig())


def test_prompts_that_cannot_be(opened):
    engine = opened(context=20)
    with pytest.raises(ConfigError, match=r"prompt 1 has 20 tokens and the context is 20"):
        engine.sample([Prompt((1, 2), 4), Prompt((1,) * 20, 4)])
    with pytest.raises(ConfigError, match="prompt 0: max_new = 0"):
        engine.sample([Prompt((1, 2), 0)])
    with pytest.raises(ConfigError, match="at least 1 is needed"):
        engine.sample([Prompt((), 3)])
    assert len(engine.sample([Prompt((1,) * 18, 10, seed=3)])[0].token_ids) <= 2
    assert engine.sample([]) == [] and engine.forward_backward([], LossConfig()).rows == 0
    with pytest.raises(ConfigError, match=r"loss\.length is not set"):
        engine.forward_backward([], LossConfig(name="dr_grpo"))
    engine.close()
    with pytest.raises(ModelError, match="closed"):
        engine.sample([Prompt((1,), 1)])


def test_capabilities(opened):
    told = opened().capabilities
    assert told.exact_resume and told.export and told.kl and told.entropy and told.max_tokens == 256
    assert "cispo" in told.losses and told.details["device"] == "cpu"


@pytest.mark.parametrize(("asked", "computed_with"), [(None, 1), (2, 2)])
def test_a_small_model_computes_with_one_thread_unless_told_otherwise(opened, asked, computed_with):
    """Threads wait for each other at every token; 2 are slower than 1 here, and by far where the cores are busy."""
    import torch

    before, seen = torch.get_num_threads(), []
    torch.set_num_threads(3)
    try:
        engine = opened(threads=asked)
        engine.sample(
            prompts_of(engine, groups=1, size=2, new=4), each=lambda i, s: seen.append(torch.get_num_threads())
        )
        assert set(seen) == {computed_with} and torch.get_num_threads() == 3
    finally:
        torch.set_num_threads(before)


def test_a_large_model_is_left_to_torch(opened, monkeypatch):
    from coevo.models import machine

    monkeypatch.setattr(machine, "SMALL", 10)
    assert machine.threads_for(opened().module, None) is None and machine.threads_for(opened().module, 2) == 2
