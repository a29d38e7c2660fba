"""The losses that are worked out here, for servers that have none such: against torch's gradients, and against differences."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coevo.engines import losses, tinker_losses, tinker_requests
from coevo.engines.types import LossConfig, Row

torch = pytest.importorskip("torch", reason="torch is not installed (extra: local)")

numbers = st.floats(-2, 2, allow_nan=False, width=32)


@st.composite
def batches(draw) -> tuple[list[Row], list[list[float]], list[list[float]]]:
    """Rows, and for each of their tokens the log-probabilities of policy and reference."""
    rows, now, then = [], [], []
    for _ in range(draw(st.integers(1, 4))):
        n = draw(st.integers(1, 6))
        lists = [draw(st.lists(numbers, min_size=n, max_size=n)) for _ in range(4)]
        trained = draw(st.lists(st.booleans(), min_size=n, max_size=n))
        rows.append(Row(tuple(range(n + 2)), 2, tuple(lists[0]), tuple(trained), tuple(lists[1])))
        now.append(lists[2])
        then.append(lists[3])
    return rows, now, then


configs = st.builds(
    LossConfig,
    name=st.sampled_from(tinker_losses.LOSSES),
    ratio_cap=st.sampled_from([None, 1.1, 3.0]),
    length=st.just(7),
    kl=st.sampled_from([0.0, 0.3]),
    kl_estimator=st.sampled_from(["k1", "k2", "k3"]),
)


@settings(max_examples=200, deadline=None)
@given(batches(), configs)
def test_values_and_slopes_are_those_of_the_torch_losses(batch, config):
    rows, now, then = batch
    width = max(len(row.trained) for row in rows)

    def table(lists):
        return torch.tensor([list(map(float, one)) + [0.0] * (width - len(one)) for one in lists], dtype=torch.float64)

    q, mask = table(now).requires_grad_(), table([row.trained for row in rows])
    counts = [sum(row.trained) for row in rows]
    totals = losses.Totals(sum(c > 0 for c in counts), sum(counts), 7)
    terms = losses.token_terms(
        config,
        q,
        table([row.logprobs for row in rows]),
        table([row.advantages for row in rows]),
        mask,
        table(then) if config.kl else None,
    )
    total = losses.reduce_terms(config, terms.loss, mask, totals).sum()
    (gradient,) = torch.autograd.grad(total, q)

    values = [tinker_losses.evaluate(row, a, config, b) for row, a, b in zip(rows, now, then, strict=True)]
    factors = tinker_losses.weights(rows, config)
    assert tinker_losses.stats(rows, values, config).loss == pytest.approx(total.item(), rel=1e-9, abs=1e-9)
    for value, factor, expected, row in zip(values, factors, gradient.numpy(), rows, strict=True):
        assert np.allclose(factor * value.slope, expected[: len(row.trained)], rtol=1e-9, atol=1e-12)


@settings(max_examples=100, deadline=None)
@given(batches(), st.sampled_from(["importance_sampling", "ppo", "dapo", "grpo", "dr_grpo", "cispo", "cross_entropy"]))
def test_what_is_called_native_is_the_servers_loss_with_scaled_advantages(batch, name):
    rows, now, _ = batch
    config = LossConfig(name=name, length=7)
    assert tinker_losses.is_native(config, summed=True)
    kind, given_ = tinker_losses.native(config)
    for row, q, factor in zip(rows, now, tinker_losses.weights(rows, config), strict=True):
        keep = np.array(row.trained)
        scaled = np.where(keep, factor * np.array(row.advantages), 0.0)
        tensors = {"advantages": scaled, "logprobs": np.array(row.logprobs)}
        datum = tinker_requests.Datum(
            tuple(range(len(q) + 1)), {"weights": scaled} if kind == "cross_entropy" else tensors
        )
        value, slope = tinker_requests.loss_of(kind, given_ or {}, datum, np.array(q))
        mine = tinker_losses.evaluate(row, q, config)
        assert np.allclose(value, factor * mine.loss) and np.allclose(slope, factor * mine.slope)


@pytest.mark.parametrize("name", ["importance_sampling", "ppo", "cispo", "cross_entropy"])
def test_the_servers_slopes_are_differences_of_its_losses(name):
    rng = np.random.default_rng(3)
    n = 400
    tensors = {"advantages": rng.normal(size=n), "logprobs": rng.normal(size=n), "weights": rng.normal(size=n)}
    datum = tinker_requests.Datum(tuple(range(n + 1)), tensors)
    q, step = rng.normal(size=n), 1e-6
    _, slope = tinker_requests.loss_of(name, {}, datum, q)
    up, down = (tinker_requests.loss_of(name, {}, datum, q + d)[0] for d in (step, -step))
    if name == "cispo":  # its weight is held fixed
        ratio = np.clip(np.exp(q - tensors["logprobs"]), 0.8, 1.2)
        assert np.allclose(slope, -ratio * tensors["advantages"] * tensors["weights"])
    else:
        assert np.allclose(slope, (up - down) / (2 * step), atol=1e-5)


def test_numbers_that_are_none_are_left_out():
    good = Row((1, 2, 3), 1, (1.0, 1.0), (True, False), (-1.0, 0.0))
    assert tinker_losses.is_finite(good)
    assert tinker_losses.is_finite(Row((1, 2, 3), 1, (1.0, float("nan")), (True, False), (-1.0, 0.0)))
    assert not tinker_losses.is_finite(Row((1, 2, 3), 1, (float("nan"), 1.0), (True, False), (-1.0, 0.0)))
    assert not tinker_losses.is_finite(Row((1, 2, 3), 1, (1.0, 1.0), (True, False), (float("-inf"), 0.0)))
