"""The course of a column, windows, groups and worst rows against their definitions in plain Python."""

from __future__ import annotations

import math
from statistics import fmean

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coevo.diagnostics import course as c
from coevo.diagnostics import student
from coevo.evidence.rows import frame_of

ROW = st.fixed_dictionaries(
    {
        "step": st.one_of(st.none(), st.integers(0, 9), st.sampled_from([0.5, 1e300, -3])),
        "group": st.sampled_from(["a", "b", "c"]),
        "reward": st.one_of(st.none(), st.floats(-5, 5), st.just(math.nan), st.just(math.inf)),
    }
)


def finite(value) -> bool:
    return value is not None and math.isfinite(value)


@settings(deadline=None, max_examples=60)
@given(st.lists(ROW, max_size=40))
def test_means_and_groups_are_what_they_say(rows: list[dict]) -> None:
    frame = frame_of(rows)
    known = [row for row in rows if finite(row["reward"])]
    stepped = sorted({float(row["step"]) for row in known if row["step"] is not None})
    course = c.by_step(frame, frame.numbers("reward"))
    assert course.steps.tolist() == stepped
    for step, mean in zip(course.steps, course.means, strict=True):
        assert mean == pytest.approx(fmean(row["reward"] for row in known if row["step"] == step), abs=1e-9)
    groups = c.groups_of(frame, frame.numbers("reward"))
    wanted: dict[tuple, list[float]] = {}
    for row in known:
        wanted.setdefault((row["step"], row["group"]), []).append(row["reward"])
    assert sorted(map(tuple, np.stack([groups.n, groups.low, groups.high], axis=1).tolist())) == sorted(
        (float(len(v)), min(v), max(v)) for v in wanted.values()
    )
    assert groups.spread.min(initial=0) >= 0


@settings(deadline=None, max_examples=60)
@given(st.lists(st.floats(-5, 5), min_size=1, max_size=30), st.integers(1, 6))
def test_the_worst_rows_are_the_worst(values: list[float], most: int) -> None:
    frame = frame_of([{"reward": value} for value in values])
    found = c.worst(frame, np.array(values), most=most)
    assert len(found) == len(set(found)) == min(most, len(values))
    assert [values[i] for i in found] == sorted(values, reverse=True)[:most]


def test_a_masked_frame_names_rows_of_its_source() -> None:
    frame = frame_of([{"reward": float(i)} for i in range(10)])
    odd = frame.where(np.arange(10) % 2 == 1)
    assert c.worst(odd, odd.numbers("reward"), most=2) == (9, 7)
    assert odd.excerpt((9,))[0]["reward"] == 9.0


@settings(deadline=None, max_examples=30)
@given(st.integers(0, 1000), st.floats(-3, 3))
def test_a_shift_moves_the_windows_and_not_their_difference(seed: int, shift: float) -> None:
    rng = np.random.Generator(np.random.Philox(seed))
    steps, values = np.repeat(np.arange(30.0), 4), rng.normal(size=120)
    one, other = c.change(c.course_of(steps, values)), c.change(c.course_of(steps, values + shift))
    assert one is not None and other is not None
    assert other.difference == pytest.approx(one.difference, abs=1e-9) and other.se == pytest.approx(one.se, abs=1e-9)


def test_flat_courses_are_called_risen_as_often_as_stated() -> None:
    rng = np.random.Generator(np.random.Philox(7))
    found = [c.change(c.course_of(np.repeat(np.arange(24.0), 8), rng.normal(size=192))) for _ in range(2000)]
    risen = sum(one.rose for one in found if one is not None)
    # 2.5 % of 2000, and five standard deviations of that count; the noise is estimated from neighbours, so somewhat more is allowed.
    assert 20 <= risen <= 50 + 5 * 7 + 20


def test_a_trend_does_not_pass_for_noise() -> None:
    steps = np.arange(60.0)
    assert c.course_of(steps, steps / 10).noise < 0.1
    assert c.slope(c.course_of(steps, 3 * steps + 1)) == pytest.approx((3.0, 0.0), abs=1e-9)


def test_equal_rewards_have_no_spread_where_a_deviation_has() -> None:
    rewards = [0.2] * 7
    assert np.std(rewards) > 0
    groups = c.groups_of(frame := frame_of([{"group": "g", "reward": r} for r in rewards]), frame.numbers("reward"))
    assert groups.dead().tolist() == [True]


def test_a_series_is_thinned_with_both_ends() -> None:
    points = c.thinned(np.arange(1000.0), np.arange(1000.0))
    assert len(points) == c.POINTS and points[0] == (0.0, 0.0) and points[-1] == (999.0, 999.0)


def test_quantiles_of_t_are_those_of_scipy() -> None:
    from scipy import special

    for degrees in (1, 1.3, 2, 2.5, 3, 7, 29.7, 60, 200, 499, 501, 5000, 1e6):
        for level in (0.025, 0.5, 0.6, 0.9, 0.975, 0.995, 0.9995):
            expected = float(special.stdtrit(degrees, level))
            assert student.quantile(degrees, level) == pytest.approx(
                expected, rel=1e-11, abs=1e-12 if level != 0.5 else 1e-9
            )
