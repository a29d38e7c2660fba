"""Differences between arms, and what could be found beforehand."""

from __future__ import annotations

import math

import pytest

from coevo.bench.comparing import band, compare, corrected, detectable
from coevo.bench.types import SearchRecord
from coevo.stats import crossed_bootstrap
from coevo.streams import array_stream, stream
from tests.bench.made import record

TASKS = [f"t{i}" for i in range(30)]


def records(
    effects: dict[str, float], *, seeds: int = 3, noise: float = 0.05, suite: str = "ood"
) -> list[SearchRecord]:
    """Tasks differ a lot, arms by their effect, searches by noise."""
    found = []
    for arm, effect in effects.items():
        for seed in range(seeds):
            for task in TASKS:
                base = stream(0, "task", task).random() * 0.5
                value = base + effect + stream(0, "noise", arm, seed, task).gauss(0, noise)
                found.append(record(arm, seed, task, hidden=value, suite=suite))
    return found


def test_a_paired_comparison_finds_what_tasks_would_hide() -> None:
    pairs = [("evolve_search", "search", True), ("direct", "search", False)]
    found = compare(records({"search": 0.0, "direct": 0.0, "evolve_search": 0.06}), pairs, suite="ood", seed=1)
    better, equal = found
    assert better.interval.low > 0 and better.interval.estimate == pytest.approx(0.06, abs=0.02)
    assert better.p < 0.01 and better.p_tasks < 0.01 and len(better.by_seed) == 3
    assert equal.interval.low < 0 < equal.interval.high and equal.p > 0.05
    assert better.pairs == 90 and better.tasks == 30 and better.primary and not equal.primary


def test_arms_that_were_not_run_and_other_suites_are_left_out() -> None:
    some = records({"search": 0.0, "direct": 0.1}) + records({"search": 0.5, "direct": 0.0}, suite="id")
    pairs = [("direct", "search", True), ("evolve_search", "search", True)]
    found = compare(some, pairs, suite="ood", seed=1)
    assert [d.arm for d in found] == ["direct"] and found[0].interval.estimate > 0.05


def test_cells_missing_in_one_arm_do_not_pair() -> None:
    some = [r for r in records({"search": 0.0, "direct": 0.1}) if not (r.arm == "direct" and r.task == "t3")]
    some += [record("direct", 0, "t3", hidden=None)]
    found = compare(some, [("direct", "search", True)], suite="ood", seed=1)[0]
    assert found.tasks == 29 and found.pairs == 87


def test_correction_is_within_families() -> None:
    effects = {"search": 0.0, "a": 0.02, "b": 0.02, "c": 0.02}
    pairs = [("a", "search", True), ("b", "search", False), ("c", "search", False)]
    found = corrected(compare(records(effects), pairs, suite="ood", seed=1))
    assert found[0].p_holm == found[0].p  # The only primary one.
    assert max(found[1].p_holm, found[2].p_holm) <= 1 and min(found[1].p_holm, found[2].p_holm) >= min(
        1.0, 2 * min(found[1].p, found[2].p)
    )


def test_the_detectable_effect_is_the_noise_of_the_pilot() -> None:
    pilot = records({"search": 0.0}, seeds=3, noise=0.1, suite="pilot")
    found = detectable(pilot, tasks=64, seeds=3)
    assert found is not None
    assert found.sd_one == pytest.approx(0.1 * math.sqrt(2), rel=0.2)
    assert found.effect == pytest.approx((1.96 + 0.8416) * found.sd_one / math.sqrt(3 * 64), rel=1e-3)
    assert found.pilot_tasks == 30 and found.pilot_seeds == 3
    assert detectable([r for r in pilot if r.seed == 0], tasks=64, seeds=3) is None
    assert detectable([], tasks=64, seeds=3) is None


def test_an_effect_of_the_size_said_is_mostly_found() -> None:
    pilot = records({"search": 0.0}, seeds=3, noise=0.1)
    found = detectable(pilot, tasks=30, seeds=3)
    assert found is not None
    hits = 0
    for trial in range(30):
        rng = array_stream(trial, "trial")
        some = [
            record(arm, seed, task, hidden=effect + rng.normal(0, 0.1))
            for arm, effect in (("search", 0.0), ("a", found.effect))
            for seed in range(3)
            for task in TASKS
        ]
        hits += compare(some, [("a", "search", True)], suite="ood", seed=trial, resamples=400)[0].over_tasks.low > 0
    assert hits >= 18


def test_bands_hold_their_curve() -> None:
    table = {(seed, task): [0.1 * seed, 0.2 + 0.01 * i] for seed in range(3) for i, task in enumerate(TASKS)}
    drawn = band(table, seed=0)
    assert drawn is not None and drawn.points == pytest.approx((0.1, 0.2 + 0.01 * 14.5))
    assert all(low <= point <= high for low, point, high in zip(drawn.low, drawn.points, drawn.high, strict=True))
    assert band({}, seed=0) is None


def test_a_band_is_the_interval_at_each_point() -> None:
    table = {
        (s, t): [stream(0, s, t, k).random() for k in range(3)] for s in range(3) for t in TASKS if (s, t) != (1, "t4")
    }
    drawn = band(table, seed=5, resamples=800)
    assert drawn is not None
    for k in range(3):
        cells = [[table[s, t][k] if (s, t) in table else math.nan for t in sorted(TASKS)] for s in range(3)]
        assert (drawn.points[k], drawn.low[k], drawn.high[k]) == pytest.approx(
            crossed_bootstrap(cells, seed=5, resamples=800)[0]
        )
