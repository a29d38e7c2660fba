"""Calibration: twins are twins, the power is what the gate does, and a gate that is none is refused."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coevo.errors import GateBlocked, UsageError
from coevo.gate.calibrate import Samples, calibrate, refuse
from coevo.gate.settings import GateConfig
from coevo.gate.twins import Tasks, fitted_prior, paths_of, raised
from coevo.gate.types import Calibration
from coevo.streams import array_stream

CONFIG = GateConfig()


def measurement(n: int, seed: int, *, samples: int = 12, shift: float = 0.0) -> Samples:
    """A parent with U-shaped pass rates."""
    rates = array_stream(4, "rates").beta(0.35, 0.68, n)
    rng = array_stream(seed, "measured")
    return {f"t{i}": tuple(map(float, rng.random(samples) < min(1, r + shift))) for i, r in enumerate(rates)}


def twice(n: int) -> tuple[Samples, Samples]:
    return measurement(n, 1), measurement(n, 2)


def test_a_calibration_says_what_the_gate_does() -> None:
    found = calibrate(CONFIG, twice(48), trials=150, seed=3, holdout_tasks=48)
    assert found.trials == 150 and found.tasks == 48
    assert found.low <= found.false_promotions <= found.high and found.low <= CONFIG.alpha
    power = [found.power_at[gain] for gain in sorted(found.power_at)]
    assert all(b >= a - 0.05 for a, b in itertools.pairwise(power)) and power[-1] > 0.95
    assert all(found.confirmed_at[gain] <= found.power_at[gain] for gain in found.power_at)
    assert found.detectable == pytest.approx(0.05, abs=0.012)
    assert found.power_at[0.05] == pytest.approx(0.78, abs=0.12)
    assert found.parity is not None and found.parity > 0.001
    refuse(CONFIG, found)
    assert json.loads(json.dumps(found.to_dict(), allow_nan=False))["power_at"]["0.05"] == found.power_at[0.05]


def test_the_same_seed_gives_the_same_calibration() -> None:
    first, again = (calibrate(CONFIG, twice(14), trials=20, seed=9, gains=(0.08,)) for _ in range(2))
    other = calibrate(CONFIG, twice(14), trials=20, seed=10, gains=(0.08,))
    assert first == again != other


def test_the_noise_is_that_of_real_twins() -> None:
    """Against many real pairs of measurements at the plan's samples, yes-or-no truth and other."""
    found = calibrate(CONFIG, twice(60), trials=1, seed=0, gains=())
    real = [measurement(60, 100 + i) for i in range(40)]
    means = np.array([[np.mean(m[t]) for t in m] for m in real])
    assert found.noise == pytest.approx(float(np.std(means[::2] - means[1::2])), rel=0.15)
    rng = array_stream(6, "continuous")
    level, spread = rng.random(60), rng.uniform(0, 0.3, 60)
    plain = [{f"t{i}": tuple(level[i] + spread[i] * rng.normal(size=12)) for i in range(60)} for _ in range(2)]
    expected = math.sqrt(2 * np.mean(spread**2) / 12)
    assert calibrate(CONFIG, plain, trials=1, seed=0, gains=()).noise == pytest.approx(expected, rel=0.15)


def test_what_differs_between_measurements_counts_as_noise() -> None:
    """A task that is judged otherwise on another day: samples within a day know nothing of it."""
    days = []
    for day in (1, 2):
        rng = array_stream(day, "days")
        days.append({f"t{i}": (float(rng.normal(0.5, 0.2)),) * 6 for i in range(40)})
    found = calibrate(CONFIG, days, trials=1, seed=0, gains=())
    assert found.noise > 0.1


def test_a_measurement_that_does_not_repeat_is_refused() -> None:
    found = calibrate(CONFIG, (measurement(48, 1), measurement(48, 2, shift=0.3)), trials=5, seed=0, gains=())
    assert found.parity is not None and found.parity < 0.001
    with pytest.raises(GateBlocked, match="same parent differ"):
        refuse(CONFIG, found)


def test_a_gate_that_promotes_twins_is_refused_with_what_to_change() -> None:
    bad = Calibration(0.1, 0.2, 0.15, 0.26, 200, 0.05, tasks=14)
    with pytest.raises(GateBlocked, match=r"20\.0% of twins .* more gate tasks \(now 14\)"):
        refuse(CONFIG, bad)
    refuse(CONFIG, replace(bad, low=0.049))


@pytest.mark.parametrize(
    ("measured", "says"),
    [
        ((), "one measurement"),
        (({},), "12 measured tasks"),
        (twice(11), "there are 11"),
        (({f"t{i}": (None, None) for i in range(20)},), "there are 0"),
        (({f"t{i}": (1.0,) for i in range(20)},), "two samples"),
    ],
)
def test_measurements_that_say_nothing_are_named(measured: tuple[Samples, ...], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        calibrate(CONFIG, measured, trials=5, seed=0)


@given(st.lists(st.lists(st.sampled_from([0.0, 1.0]), min_size=2, max_size=12), min_size=1, max_size=20))
def test_any_yes_or_no_measurement_has_a_prior(samples: list[list[float]]) -> None:
    a, b = fitted_prior([np.array(s) for s in samples])
    assert 0 < a < math.inf and 0 < b < math.inf
    assert 0 <= Tasks.of([np.array(s) for s in samples]).within() <= 0.25


def test_the_prior_of_known_rates_is_found() -> None:
    rng = array_stream(1, "prior")
    samples = [(rng.random(24) < rate).astype(float) for rate in rng.beta(0.35, 0.68, 2000)]
    assert fitted_prior(samples) == pytest.approx((0.35, 0.68), rel=0.15)


@settings(max_examples=50)
@given(st.lists(st.floats(0.001, 0.999), min_size=2, max_size=30), st.floats(-0.2, 0.2))
def test_a_gain_is_planted_as_large_as_it_says(rates: list[float], gain: float) -> None:
    before = np.array(rates)
    after = raised(before, gain)
    goal = before.mean() + gain
    assert ((after > 0) & (after <= 1)).all()
    if 0.01 < goal < 0.99:
        assert after.mean() == pytest.approx(goal, abs=1e-6)
        assert (np.argsort(after, kind="stable") == np.argsort(before, kind="stable")).all() or len(set(rates)) < len(
            rates
        )


def test_twins_are_alike_and_children_better_by_the_gain() -> None:
    for samples in (
        [np.array([1.0] * (i % 13) + [0.0] * (12 - i % 13)) for i in range(60)],
        [np.linspace(0, 1 + i / 60, 8) for i in range(60)],
    ):
        tasks = Tasks.of(samples)
        for gain in (0.0, 0.1):
            means = [
                paths_of(*tasks.looks(array_stream(2, t), tasks=60, looks=2, samples=4, gain=gain))[:, -1].mean()
                for t in range(100)
            ]
            assert np.mean(means) == pytest.approx(gain, abs=4 * np.std(means) / 10)
