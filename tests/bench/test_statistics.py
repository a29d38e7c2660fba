"""Crossed bootstrap, Holm's correction, minimum detectable effect."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coevo.errors import UsageError
from coevo.stats import bootstrap_ci, crossed_bootstrap, holm, minimum_detectable_effect, sign_flip_p
from coevo.streams import array_stream


def test_a_crossed_interval_covers_the_mean_about_as_often_as_it_says() -> None:
    hits, trials = 0, 200
    for trial in range(trials):
        rng = array_stream(trial, "crossed")
        table = 0.3 + rng.normal(0, 0.2, (6, 1)) + rng.normal(0, 0.3, (1, 30)) + rng.normal(0, 0.2, (6, 30))
        interval, _ = crossed_bootstrap(table.tolist(), seed=trial, resamples=400)
        hits += interval.low <= 0.3 <= interval.high
    # 95 % less what six rows cost (their variance comes out 5 / 6 as large); binomial noise of 200 trials is 2 points.
    assert 0.82 <= hits / trials <= 0.98


def test_tasks_alone_give_a_narrower_interval_than_tasks_and_seeds() -> None:
    rng = array_stream(1, "crossed")
    table = 0.1 + rng.normal(0, 0.3, (4, 1)) + rng.normal(0, 0.1, (4, 40))
    both, _ = crossed_bootstrap(table.tolist(), seed=0)
    tasks, _ = crossed_bootstrap(table.tolist(), seed=0, rows=False)
    assert both.estimate == tasks.estimate == pytest.approx(float(table.mean()))
    assert tasks.high - tasks.low < 0.5 * (both.high - both.low)
    plain = bootstrap_ci(list(table.mean(axis=0)), seed=0, method="percentile")
    assert tasks.low == pytest.approx(plain.low, abs=0.004) and tasks.high == pytest.approx(plain.high, abs=0.004)


def test_cells_that_were_not_measured_do_not_count() -> None:
    nan = math.nan
    interval, _ = crossed_bootstrap([[1.0, nan, 1.0], [nan, nan, 1.0]], seed=0)
    assert interval == (1.0, 1.0, 1.0)
    with pytest.raises(UsageError, match="one measured cell"):
        crossed_bootstrap([[nan, nan]], seed=0)
    with pytest.raises(UsageError, match="table of numbers"):
        crossed_bootstrap([], seed=0)
    one, p = crossed_bootstrap([[0.5]], seed=0)
    assert one.estimate == 0.5 and math.isnan(one.low) and math.isnan(p)


def test_the_p_value_agrees_with_the_interval_and_is_never_zero() -> None:
    clear, p_clear = crossed_bootstrap([[0.2, 0.3, 0.25, 0.2]] * 3, seed=0, resamples=999)
    assert clear.low > 0 and p_clear == pytest.approx(2 / 1000)
    rng = array_stream(3, "null")
    null, p_null = crossed_bootstrap(rng.normal(0, 1, (3, 40)).tolist(), seed=0)
    assert (null.low < 0 < null.high) == (p_null > 0.05)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_only_raises_keeps_the_order_and_stays_under_bonferroni(ps: list[float]) -> None:
    adjusted = holm(ps)
    for i, p in enumerate(ps):
        assert p <= adjusted[i] <= min(1.0, len(ps) * p) + 1e-12
        assert all(adjusted[i] <= adjusted[j] for j in range(len(ps)) if ps[i] < ps[j])


def test_holm_on_the_textbook_example() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    with_gap = holm([0.01, math.nan, 0.04])
    assert with_gap[0] == pytest.approx(0.02) and math.isnan(with_gap[1]) and with_gap[2] == pytest.approx(0.04)


def test_an_effect_of_the_size_said_is_found_as_often_as_said() -> None:
    n, sd = 40, 0.25
    effect = minimum_detectable_effect(sd, n, power=0.8)
    assert effect == pytest.approx((1.959964 + 0.841621) * sd / math.sqrt(n), rel=1e-5)
    found = 0
    for trial in range(200):
        values = array_stream(trial, "power").normal(effect, sd, n)
        found += sign_flip_p(list(values), seed=trial, resamples=400) <= 0.05
    assert 0.7 <= found / 200 <= 0.9
    with pytest.raises(UsageError, match="no minimum detectable effect"):
        minimum_detectable_effect(float(np.nan), 10)
