"""Statistics against hand-counted values, scipy, and their own symmetries."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from coevo.errors import UsageError
from coevo.stats import bootstrap_ci, median, paired_permutation_p, quantiles, sign_flip_p

numbers = st.floats(-1e6, 1e6)
some = st.lists(numbers, min_size=1, max_size=40)


@given(values=some)
def test_the_median_has_half_on_either_side(values: list[float]) -> None:
    middle = median(values)
    assert sum(v <= middle for v in values) * 2 >= len(values) <= sum(v >= middle for v in values) * 2


@given(values=some, qs=st.lists(st.floats(0, 1), min_size=2, max_size=5))
def test_quantiles_are_ordered_and_inside(values: list[float], qs: list[float]) -> None:
    found = quantiles(values, sorted(qs))
    assert found == sorted(found) and min(values) <= found[0] and found[-1] <= max(values)
    assert quantiles(values, [0, 0.5, 1]) == pytest.approx([min(values), median(values), max(values)])


@pytest.mark.parametrize("values", [[], [1.0, math.nan], [math.inf], [[1.0]]])
def test_values_that_are_no_sample_are_named(values: list[float]) -> None:
    for call in (median, lambda v: quantiles(v, [0.5]), lambda v: bootstrap_ci(v, seed=0)):
        with pytest.raises(UsageError, match="needs"):
            call(values)
    with pytest.raises(UsageError, match="0 to 1"):
        quantiles([1.0], [1.5])


@settings(max_examples=30, deadline=None)
@given(values=st.lists(numbers, min_size=2, max_size=20), method=st.sampled_from(["BCa", "percentile"]))
def test_an_interval_lies_within_the_data_and_repeats(values: list[float], method: str) -> None:
    first = bootstrap_ci(values, seed=7, resamples=500, method=method)
    assert first == bootstrap_ci(values, seed=7, resamples=500, method=method)
    slack = 1e-9 * max(1.0, *map(abs, values))
    assert min(values) - slack <= first.low <= first.high <= max(values) + slack


def test_intervals_cover_the_truth_as_often_as_they_say() -> None:
    rng = np.random.Generator(np.random.Philox(3))
    inside = 0
    for seed in range(200):
        found = bootstrap_ci(list(rng.normal(5.0, 2.0, 30)), seed=seed, resamples=400)
        inside += found.low <= 5.0 <= found.high
    assert 180 <= inside <= 198


def test_intervals_of_degenerate_data() -> None:
    assert bootstrap_ci([2.0, 2.0, 2.0], seed=0) == (2.0, 2.0, 2.0)
    one = bootstrap_ci([2.0], seed=0)
    assert one.estimate == 2.0 and math.isnan(one.low) and math.isnan(one.high)
    found = bootstrap_ci([1.0, 2.0, 3.0, 100.0], seed=0, statistic=np.median)
    assert found.estimate == 2.5 and found.low <= 2.5 <= found.high


def test_p_values_counted_by_hand() -> None:
    assert sign_flip_p([1, 1, 1, 1, 1], seed=0) == 2 / 32
    assert sign_flip_p([1, 1, 1, 1, 1], seed=0, alternative="greater") == 1 / 32
    assert sign_flip_p([1, 1, 1, 1, 1], seed=0, alternative="less") == 1.0
    assert sign_flip_p([0.1, 0.2, -0.3], seed=0) == 1.0
    assert sign_flip_p([0.0, 0.0], seed=0) == 1.0 == sign_flip_p([], seed=0)


@settings(max_examples=40, deadline=None)
@given(values=st.lists(st.integers(-20, 20), min_size=1, max_size=8))
def test_small_samples_are_exact(values: list[int]) -> None:
    kept = [v for v in values if v]
    sums = [
        sum(s * v for s, v in zip(signs, kept, strict=True)) for signs in itertools.product((1, -1), repeat=len(kept))
    ]
    expected = sum(abs(s) >= abs(sum(kept)) for s in sums) / len(sums)
    assert sign_flip_p(values, seed=0) == expected
    assert sign_flip_p([-v for v in values], seed=0) == expected


def test_exact_values_agree_with_scipy() -> None:
    a, b = [3.1, 2.2, 5.0, 4.4, 1.9, 6.1], [2.9, 2.6, 4.1, 3.8, 1.2, 5.9]
    theirs = scipy_stats.permutation_test(
        (a, b), lambda x, y, axis: np.mean(x - y, axis=axis), permutation_type="samples", vectorized=True
    )
    assert paired_permutation_p(a, b, seed=0) == pytest.approx(theirs.pvalue)


def test_large_samples_are_sampled_seeded_and_never_zero() -> None:
    rng = np.random.Generator(np.random.Philox(1))
    same = list(rng.normal(0, 1, 200))
    assert sign_flip_p(same, seed=5) == sign_flip_p(same, seed=5)
    assert sign_flip_p([1.0] * 200, seed=5) == 1 / 20_001
    exact = sign_flip_p(same[:16], seed=5)
    close = sign_flip_p([*same[:16], 1e-12], seed=5, resamples=50_000)
    assert close == pytest.approx(exact, abs=0.02)


def test_p_values_are_uniform_when_nothing_differs() -> None:
    rng = np.random.Generator(np.random.Philox(9))
    found = [sign_flip_p(list(rng.normal(0, 1, 10)), seed=0) for _ in range(400)]
    assert scipy_stats.kstest(found, "uniform").pvalue > 0.01


def test_pairs_must_match() -> None:
    with pytest.raises(UsageError, match="1 and 2"):
        paired_permutation_p([1.0], [1.0, 2.0], seed=0)
    assert paired_permutation_p([], [], seed=0) == 1.0
