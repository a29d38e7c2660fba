"""The laboratory: twins are promoted at most at the stated rate and planted gains at the stated power, over worlds and plans.

Seeds are fixed. A rate r over n trials is held against r + 3 sqrt(r (1 - r) / n): a right gate fails such a line once in 700.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import mean

import numpy as np
import pytest

from coevo.gate.settings import GateConfig
from coevo.gate.testing import Plan, detectable, estimate, walk
from coevo.gate.twins import paths_of, raised
from coevo.gate.types import Verdict
from coevo.stats import Spending
from coevo.streams import array_stream
from tests.gate.driver import FAST, HOLDOUT, TASKS, first, judge, solver

TRIALS = 400
ALPHA = 0.05
MOST = ALPHA + 3 * math.sqrt(ALPHA * (1 - ALPHA) / TRIALS)
World = Callable[[np.random.Generator, int, int, float], np.ndarray]


def u_shaped(rng: np.random.Generator, n: int, looks: int, gain: float) -> np.ndarray:
    """Pass rates with mean 0.34, most tasks near 0 or 1."""
    rates = np.clip(rng.beta(0.35, 0.68, n), 1e-6, 1 - 1e-6)
    parent, child = (rng.random((n, looks, 4)) < p[:, None, None] for p in (rates, raised(rates, gain)))
    return paths_of(parent.astype(float), child.astype(float))


def continuous(rng: np.random.Generator, n: int, looks: int, gain: float) -> np.ndarray:
    """A fitness with a long tail of bad programs."""
    level = rng.random((n, 1, 1))
    parent, child = (level - 0.3 * rng.exponential(0.5, (n, looks, 4)) for _ in range(2))
    return paths_of(parent, child + gain)


def ties(rng: np.random.Generator, n: int, looks: int, gain: float) -> np.ndarray:
    """Four of five tasks are never or always passed, whoever asks; the others carry the gain."""
    fixed = rng.random(n) < 0.8
    rates = np.where(fixed, (rng.random(n) < 0.34).astype(float), rng.uniform(0.2, 0.5, n))
    better = np.where(fixed, rates, np.clip(rates + 5 * gain, 0, 1))
    parent, child = (rng.random((n, looks, 4)) < p[:, None, None] for p in (rates, better))
    return paths_of(parent.astype(float), child.astype(float))


def promoted(world: World, config: GateConfig, n: int, gain: float, trials: int = TRIALS) -> float:
    plan = Plan.of(config, config.alpha)
    name = getattr(world, "__name__", "world")
    ends = []
    for trial in range(trials):
        paths = world(array_stream(17, name, n, trial), n, config.looks, gain)
        ends.append(walk(config, plan, paths, goal=None, seed=trial, resamples=999)[0])
    assert None not in ends
    return sum(end is Verdict.PROMOTED for end in ends) / trials


@pytest.mark.parametrize("spending", ["obrien_fleming", "pocock", "linear"])
@pytest.mark.parametrize("world", [u_shaped, continuous, ties])
def test_twins_are_promoted_at_most_at_alpha(world: World, spending: Spending) -> None:
    assert promoted(world, GateConfig(spending=spending, futility=0.0), 24, 0.0) <= MOST


@pytest.mark.parametrize("n", [12, 100])
def test_the_level_holds_for_few_tasks_and_many(n: int) -> None:
    assert promoted(u_shaped, GateConfig(futility=0.0), n, 0.0) <= MOST


def test_looking_ten_times_inflates_nothing() -> None:
    """Optional stopping: ten looks, and one stops at the first that pleases. The same looks at a fixed level each would not do."""
    config = GateConfig(looks=10, spending="pocock", futility=0.0)
    assert promoted(u_shaped, config, 24, 0.0) <= MOST
    naive = 0
    for trial in range(200):
        paths = u_shaped(array_stream(17, "naive", trial), 24, 10, 0.0)
        z = paths.mean(axis=0) / np.maximum(paths.std(axis=0, ddof=1), 1e-9) * math.sqrt(24)
        naive += bool((z > 1.645).any())
    assert naive / 200 > 2 * ALPHA, "the cheat that this guards against works"


@pytest.mark.parametrize(("world", "n"), [(u_shaped, 48), (continuous, 24), (ties, 48)])
def test_a_planted_gain_of_eight_points_is_promoted(world: World, n: int) -> None:
    """At the default settings and a number of tasks at which 0.08 is over the printed detectable effect."""
    assert promoted(world, FAST, n, 0.08, trials=200) >= 0.8


def test_the_printed_effect_is_found_with_the_printed_power() -> None:
    """Noise alone, as the statement says: every task gains alike."""
    config, n, sd = GateConfig(futility=0.0), 40, 0.3
    effect = detectable(config, sd * math.sqrt(2 / (config.looks * config.samples)), n)

    def normal(rng: np.random.Generator, n: int, looks: int, gain: float) -> np.ndarray:
        parent, child = rng.normal(0.5, sd, (2, n, looks, 4))
        return paths_of(parent, child + gain)

    assert promoted(normal, config, n, effect, trials=300) == pytest.approx(config.power, abs=0.07)


def test_futility_costs_little_power_and_saves_looks() -> None:
    plan = Plan.of(FAST, ALPHA)
    looks = [
        walk(FAST, plan, u_shaped(array_stream(3, t), 48, 3, -0.05), goal=None, seed=t, resamples=499)
        for t in range(60)
    ]
    assert mean(look for _, look, _ in looks) < 2.5
    with_it, without = (promoted(u_shaped, GateConfig(futility=f), 24, 0.08, trials=150) for f in (0.05, 0.0))
    assert without - with_it < 0.05


def test_one_task_that_improves_for_sure_promotes_nothing() -> None:
    """One sample a task, everything else repeats itself: the mean is its own standard error, and no evidence."""
    config = GateConfig(samples=1, looks=1, futility=0.0)
    for better in range(1, 5):
        paths = np.zeros((24, 1))
        paths[:better] = 1.0
        assert walk(config, Plan.of(config, ALPHA), paths, goal=None, seed=0)[0] is not Verdict.PROMOTED
    paths[:6] = 1.0
    assert walk(config, Plan.of(config, ALPHA), paths, goal=None, seed=0)[0] is Verdict.PROMOTED


def test_intervals_cover_at_whatever_look_one_stops() -> None:
    """The lower bound is over the true gain at most at alpha, and a child is promoted exactly where it is over zero."""
    plan, inside, trials, gain = Plan.of(FAST, ALPHA), 0, 150, 0.06
    for trial in range(trials):
        paths = continuous(array_stream(23, trial), 30, 3, gain)
        verdict, look, _ = walk(FAST, plan, paths, goal=None, seed=trial, resamples=499)
        found = estimate(plan, paths[:, :look], seed=trial, resamples=499)
        inside += found.low <= gain <= found.high
        assert found.low < found.difference < found.high
        assert (verdict is Verdict.PROMOTED) == (found.low > 0) == (found.p <= ALPHA + 1e-3)
    assert inside / trials >= 1 - 2 * ALPHA - 3 * math.sqrt(0.1 * 0.9 / trials)


def test_the_whole_way_with_checks_and_holdout() -> None:
    """Twins and planted gains through `next_step`, rows and all; twins that pass the gate split fall at the holdout, mostly."""
    config = GateConfig(min_tasks=12)
    seen = first(config, tasks=TASKS[:24], holdout=HOLDOUT[:24])
    twins = [judge(solver(), solver(), config=config, seen=seen, seed=s)[0].verdict for s in range(20)]
    better = [judge(solver(), solver(0.2), config=config, seen=seen, seed=s)[0].verdict for s in range(8)]
    assert sum(v is Verdict.PROMOTED for v in twins) <= 2
    assert sum(v is Verdict.PROMOTED for v in better) >= 6
    assert Verdict.INVALID not in {*twins, *better}
