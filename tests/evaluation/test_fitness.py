"""The fitness formulas: bounds, monotonicity, and the values worth knowing."""

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from coevo.errors import TaskError
from coevo.evaluation.fitness import FAILED, efficiency_of, fitness_of, open_fitness
from coevo.tasks.types import BestKnown, FitnessConfig

share = st.floats(0, 1)
weight = st.floats(0, 10)
score = st.floats(-1e6, 1e6)
direction = st.sampled_from(["max", "min"])
best = st.none() | st.floats(1e-3, 1e6).map(lambda v: BestKnown(value=v, source="x"))


def test_values_worth_knowing() -> None:
    default = FitnessConfig()
    assert fitness_of(default, correctness=1.0, efficiency=efficiency_of(1.0)) == pytest.approx(0.85)
    assert fitness_of(default, correctness=1.0, efficiency=0.0) == pytest.approx(0.7)
    assert fitness_of(default, correctness=0.5) == 0.5  # a task that does not time programs
    assert fitness_of(FitnessConfig(name="correctness"), correctness=0.25, efficiency=0.9) == 0.25
    meta = FitnessConfig(name="metaevolve", correctness=0.5, efficiency=0.5)
    assert fitness_of(meta, correctness=1.0, efficiency=0.1, seconds=0.01) == pytest.approx(0.5 + 0.5 * 0.1, abs=1e-4)
    assert fitness_of(meta, correctness=1.0, efficiency=0.1, seconds=1e-4) == 1.0  # saturates at 1 ms
    assert fitness_of(meta, correctness=1.0, efficiency=0.0) == 0.5


def test_weights_need_not_sum_to_one_but_must_not_sum_to_zero() -> None:
    a = fitness_of(FitnessConfig(correctness=7, efficiency=3), correctness=0.8, efficiency=0.4)
    assert a == pytest.approx(fitness_of(FitnessConfig(), correctness=0.8, efficiency=0.4))
    with pytest.raises(TaskError, match="both 0"):
        fitness_of(FitnessConfig(correctness=0, efficiency=0), correctness=1, efficiency=1)


@given(
    name=st.sampled_from(["weighted", "metaevolve", "correctness"]),
    w_c=weight,
    w_e=weight,
    c=share,
    e=share,
    t=st.floats(0, 100),
)
def test_bounds(name, w_c: float, w_e: float, c: float, e: float, t: float) -> None:
    assume(w_c + w_e > 1e-6)
    value = fitness_of(
        FitnessConfig(name=name, correctness=w_c, efficiency=w_e), correctness=c, efficiency=e, seconds=t
    )
    assert 0 <= value <= 1 + 1e-12


@given(a=share, b=share, c=share, d=share)
def test_monotone_in_both_parts(a: float, b: float, c: float, d: float) -> None:
    low = fitness_of(FitnessConfig(), correctness=min(a, b), efficiency=min(c, d))
    assert low <= fitness_of(FitnessConfig(), correctness=max(a, b), efficiency=max(c, d)) + 1e-12


@given(s=st.floats(1e-6, 1e6), t=st.floats(1e-6, 1e6))
def test_efficiency_is_monotone_and_symmetric(s: float, t: float) -> None:
    assert 0 < efficiency_of(s) < 1
    assert efficiency_of(s) + efficiency_of(1 / s) == pytest.approx(1)
    if s < t:
        assert efficiency_of(s) <= efficiency_of(t)
    assert efficiency_of(math.inf) == 1


@given(a=score, b=score, direction=direction, best=best)
def test_open_fitness_orders_scores_and_never_falls_below_failing(a, b, direction, best) -> None:
    better, worse = (max(a, b), min(a, b)) if direction == "max" else (min(a, b), max(a, b))
    f_better, f_worse = open_fitness(better, direction, best), open_fitness(worse, direction, best)
    assert math.isfinite(f_better) and f_better >= f_worse >= FAILED
    clipped = best is not None and direction == "max" and worse < 0
    if abs(a - b) > 1e-3 and not clipped:
        assert f_better > f_worse


@given(value=st.floats(1e-3, 1e6), gain=st.floats(1e-6, 0.5), direction=direction)
def test_one_is_the_best_published_and_more_beats_it(value: float, gain: float, direction) -> None:
    best = BestKnown(value=value, source="x")
    assert open_fitness(value, direction, best) == pytest.approx(1)
    beats = value * (1 + gain) if direction == "max" else value * (1 - gain)
    assert open_fitness(beats, direction, best) > 1
    short = value * (1 - gain) if direction == "max" else value * (1 + gain)
    assert open_fitness(short, direction, best) < 1


def test_extremes_stay_finite() -> None:
    tiny = BestKnown(value=1e-300, source="x")
    for value in (1e308, -1e308, 0.0, 5e-324):
        for direction in ("max", "min"):
            for best in (None, tiny):
                assert 0 <= open_fitness(value, direction, best) <= 1.7976931348623157e308
