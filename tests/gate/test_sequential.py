"""The sequential sign-flip test against enumeration, theory, and published boundaries."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats as scipy_stats

from coevo.stats import (
    Spending,
    clopper_pearson,
    first_crossing,
    flipped_paths,
    plan_boundaries,
    plan_drift,
    sign_flip_p,
    spent,
)

SPENDINGS: tuple[Spending, ...] = ("obrien_fleming", "pocock", "linear")


@pytest.mark.parametrize("spending", SPENDINGS)
@given(alpha=st.floats(0.001, 0.4), fractions=st.lists(st.floats(0, 1), min_size=2, max_size=6))
def test_spending_grows_from_nothing_to_alpha(spending: Spending, alpha: float, fractions: list[float]) -> None:
    curve = [spent(spending, t, alpha) for t in sorted(fractions)]
    assert curve == sorted(curve) and curve[0] >= 0 and curve[-1] <= alpha * (1 + 1e-9)
    assert spent(spending, 0, alpha) == 0 and spent(spending, 1, alpha) == pytest.approx(alpha)


def test_boundaries_are_the_published_ones() -> None:
    """Five looks at one-sided 0.025 (Jennison and Turnbull 2000, table 7.1 and Lan-DeMets software)."""
    assert plan_boundaries("obrien_fleming", 5, 0.025) == pytest.approx((4.877, 3.357, 2.680, 2.290, 2.031), abs=2e-3)
    assert plan_boundaries("pocock", 5, 0.025) == pytest.approx((2.438, 2.427, 2.410, 2.397, 2.386), abs=2e-3)


@pytest.mark.parametrize("spending", SPENDINGS)
def test_boundaries_and_drift_by_simulation(spending: Spending) -> None:
    rng = np.random.Generator(np.random.Philox(5))
    looks, alpha, power, n = 4, 0.05, 0.8, 100_000
    walk = rng.normal(0, np.sqrt(1 / looks), (n, looks)).cumsum(axis=1)
    times = np.arange(1, looks + 1) / looks
    bounds = np.array(plan_boundaries(spending, looks, alpha))
    drift = plan_drift(spending, looks, alpha, power)
    assert (walk / np.sqrt(times) > bounds).any(axis=1).mean() == pytest.approx(alpha, abs=0.003)
    assert ((walk + drift * times) / np.sqrt(times) > bounds).any(axis=1).mean() == pytest.approx(power, abs=0.005)


def test_one_look_is_the_plain_test() -> None:
    assert plan_drift("linear", 1, 0.05, 0.8) == pytest.approx(1.6449 + 0.8416, abs=1e-3)
    rng = np.random.Generator(np.random.Philox(2))
    for _ in range(30):
        d = rng.integers(-2, 4, 9) / 4
        p = sign_flip_p(list(d), seed=0, alternative="greater")
        paths = flipped_paths(d[:, None], seed=0)
        assert bool(paths.crossing([p + 1e-9])) == (p < 1)
        assert not paths.crossing([p - 1e-6])


differences = st.lists(st.integers(-4, 4), min_size=3, max_size=8)


@settings(max_examples=60, deadline=None)
@given(data=st.data(), values=differences, spending=st.sampled_from(SPENDINGS), alpha=st.sampled_from([0.05, 0.1, 0.3]))
def test_the_level_holds_exactly_under_every_sign_pattern(
    data: st.DataObject, values: list[int], spending: Spending, alpha: float
) -> None:
    """Whatever the differences (ties, zeros, few pairs): of all patterns of signs, at most alpha cross by the last look."""
    looks = 3
    more = [data.draw(st.lists(st.integers(-4, 4), min_size=looks, max_size=looks)) for _ in values]
    paths = np.array(more, dtype=float).cumsum(axis=1) / np.arange(1, looks + 1)
    allowed = [spent(spending, j / looks, alpha) for j in range(1, looks + 1)]
    patterns = list(itertools.product((1, -1), repeat=len(values)))
    crossed = [flipped_paths(paths * np.array(p)[:, None], seed=0).crossing(allowed) for p in patterns]
    for look in range(1, looks + 1):
        assert sum(0 < c <= look for c in crossed) <= allowed[look - 1] * len(patterns) + 1e-9


def test_looks_taken_later_change_no_boundary_before() -> None:
    """A prefix of the looks crosses where the whole does: the fold may recompute everything."""
    rng = np.random.Generator(np.random.Philox(8))
    allowed = [spent("pocock", j / 4, 0.2) for j in range(1, 5)]
    seen = set()
    for trial in range(60):
        paths = rng.normal(0.15, 1.0, (30, 4)).cumsum(axis=1) / np.arange(1, 5)
        whole = flipped_paths(paths, seed=trial, resamples=499).crossing(allowed)
        for j in range(1, 5):
            part = flipped_paths(paths[:, :j], seed=trial, resamples=499).crossing(allowed[:j])
            assert part == (whole if 0 < whole <= j else 0)
        seen.add(whole)
    assert len(seen) >= 3


def test_unmeasured_pairs_say_nothing() -> None:
    d = np.array([[0.5], [0.25], [np.nan], [0.75], [0.5], [0.1]])
    assert flipped_paths(d, seed=0).means[0, 0] == pytest.approx(np.nanmean(d))
    assert flipped_paths(d, seed=0).signs[0, 0] == pytest.approx(1)
    assert flipped_paths(d, seed=0).crossing([1 / 32 + 1e-6]) == 1
    assert flipped_paths(d, seed=0).crossing([1 / 33]) == 0
    assert flipped_paths(np.full((4, 2), np.nan), seed=0).crossing([0.1, 0.2]) == 0


def test_nothing_to_spend_and_all_alike() -> None:
    means = np.zeros((100, 2))
    assert first_crossing(means, [0.05, 0.1]) == 0
    means[0] = 1.0
    assert first_crossing(means, [0.0, 0.0]) == 0
    assert first_crossing(means, [0.0, 0.01]) == 2
    assert first_crossing(means, [0.01, 0.01]) == 1


@given(trials=st.integers(1, 300), share=st.floats(0, 1))
def test_clopper_pearson_is_scipys(trials: int, share: float) -> None:
    hits = round(share * trials)
    found = clopper_pearson(hits, trials)
    theirs = scipy_stats.binomtest(hits, trials).proportion_ci(0.95, "exact")
    assert (found.low, found.high) == pytest.approx((theirs.low, theirs.high), abs=1e-9)
    assert found.low <= found.estimate <= found.high
