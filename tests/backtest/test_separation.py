"""AUC and its exact test against brute force, and under the null."""

from __future__ import annotations

import math
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coevo.backtest.separation import accuracy, auc, fit_levels, least_branches, left_out_accuracy, separation
from coevo.diagnostics.types import Levels
from coevo.streams import array_stream

VALUES = st.lists(st.integers(-3, 3).map(float), min_size=2, max_size=7)


def slow_auc(values, bad) -> float:
    pairs = [(b, g) for i, b in enumerate(values) if bad[i] for j, g in enumerate(values) if not bad[j]]
    return sum((b > g) + 0.5 * (b == g) for b, g in pairs) / len(pairs)


@given(VALUES, st.data())
@settings(max_examples=80, deadline=None)
def test_auc_and_p_are_those_of_counting(values, data) -> None:
    k = data.draw(st.integers(1, len(values) - 1))
    bad = [i < k for i in range(len(values))]
    seen = slow_auc(values, bad)
    assert auc(np.array(values), np.array(bad)) == pytest.approx(seen)
    assert auc(np.array(values), np.array(bad), high_is_bad=False) == pytest.approx(1 - seen)
    dealt = [
        slow_auc(values, [i in chosen for i in range(len(values))]) for chosen in combinations(range(len(values)), k)
    ]
    found = separation(values, bad)
    assert found.exact and found.p == pytest.approx(np.mean([a >= seen - 1e-9 for a in dealt]))
    assert found.p >= found.smallest_p == 1 / math.comb(len(values), k)


def test_three_against_three_show_five_per_cent_and_two_show_nothing() -> None:
    assert separation([0, 1, 2, 3, 4, 5], [False] * 3 + [True] * 3).p == pytest.approx(0.05)
    assert least_branches(0.05) == 3 and least_branches(0.01) == 5
    assert separation([1.0, 2.0], [True, True]).auc is None


def test_picking_the_best_of_many_is_paid_for() -> None:
    rng, bad = array_stream(0, "null"), [False] * 4 + [True] * 4
    false = 0
    for _ in range(120):
        family = rng.normal(size=(30, 8))
        strength = [abs(auc(one, np.array(bad)) - 0.5) for one in family]
        best = family[int(np.argmax(strength))]
        high = auc(best, np.array(bad)) > 0.5
        alone = separation(best.tolist(), bad, high_is_bad=high)
        paid = separation(best.tolist(), bad, high_is_bad=high, family=family.tolist())
        assert alone.p is not None and paid.p is not None and paid.p >= alone.p
        false += paid.p <= 0.05
    assert false <= 13  # 0.05 of 120 are 6; more than 13 have a chance of 0.3 %.


def test_beyond_what_can_be_counted_permutations_are_drawn_and_p_is_never_zero() -> None:
    n = 24
    found = separation([float(i) for i in range(n)], [i >= n // 2 for i in range(n)], seed=3)
    assert not found.exact and 0 < found.p <= 1e-4


def test_levels_lie_halfway_between_the_groups() -> None:
    values, bad = [1.0, 2.0, 3.0, 7.0, 9.0, 8.0], [False] * 3 + [True] * 3
    assert fit_levels(values, bad) == Levels(5.0, 8.0)
    assert fit_levels([-v for v in values], bad, high_is_bad=False) == Levels(-5.0, -8.0)
    assert accuracy(values, bad, Levels(5.0, 8.0)) == 1 and accuracy(values, bad, Levels(100, 200)) == 0.5
    assert left_out_accuracy(values, bad) == 1
    assert left_out_accuracy([1.0, 2.0, 3.0], [False, False, True]) is None


@given(st.lists(st.floats(-5, 5), min_size=4, max_size=9), st.data())
@settings(max_examples=60, deadline=None)
def test_fitted_levels_are_never_worse_than_any_other_threshold(values, data) -> None:
    k = data.draw(st.integers(1, len(values) - 1))
    bad = [i < k for i in range(len(values))]
    found = fit_levels(values, bad)
    assert found.critical >= found.warn
    ordered = sorted(set(values))
    for a, b in pairwise(ordered):
        cut = (a + b) / 2
        if a < cut < b:
            other = accuracy(values, bad, Levels(cut, math.inf))
            assert accuracy(values, bad, Levels(found.warn, math.inf)) >= other - 1e-9
