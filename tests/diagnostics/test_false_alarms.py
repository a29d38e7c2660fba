"""Sound runs of many shapes raise no alarm: the classic failure of such tools, counted."""

from __future__ import annotations

from collections import Counter

import numpy as np

from coevo.diagnostics.diagnose import diagnose
from coevo.diagnostics.types import Level
from coevo.evidence.types import Frame, Words
from coevo.streams import array_stream

RUNS = 60


def words(codes: np.ndarray, values: tuple[str, ...]) -> Words:
    return Words(codes.astype(np.int64), values)


def sound(seed: int, gain: float) -> Frame:
    """A run whose tasks have U-shaped difficulty, whose success rate rises by `gain`, and whose hidden judge agrees with the reward in 95 %.

    Length, entropy, format, losses (1 %) and a filter of dead groups go with it; sizes are drawn.
    """
    rng = array_stream(seed, "sound")
    steps, groups, size, tasks = (int(rng.integers(*bounds)) for bounds in ((12, 120), (3, 12), (4, 17), (4, 60)))
    n = steps * groups * size
    step, group = np.repeat(np.arange(1, steps + 1), groups * size), np.repeat(np.arange(steps * groups), size)
    task, progress = rng.integers(0, tasks, steps * groups)[group], (step - 1) / (steps - 1)
    right = rng.random(n) < np.clip(rng.beta(0.8, 1.4, tasks)[task] + gain * progress, 0, 1)
    truth = np.where(rng.random(n) < 0.95, right, ~right).astype(float)
    work = right.astype(float)
    if seed % 3 == 0:
        work = np.where(right, rng.uniform(0.5, 1, n), rng.uniform(0, 0.3, n) * (rng.random(n) < 0.7))
        truth = np.clip(work + 0.05 * rng.normal(size=n), 0, 1)
    readable = (rng.random(n) < 0.6 + gain * progress).astype(float)
    lost = rng.random(n) < 0.01
    reward = np.where(lost, np.nan, work + 0.1 * readable)
    low, high = np.full(steps * groups, np.inf), np.full(steps * groups, -np.inf)
    np.fmin.at(low, group, reward)
    np.fmax.at(high, group, reward)
    return Frame(
        n,
        {
            "step": step.astype(float),
            "sample": np.tile(np.arange(size), steps * groups).astype(float),
            "reward": reward,
            "truth": np.where(lost, np.nan, truth),
            "fitness": np.clip(truth + 0.03, 0, 1),
            "contract_ok": readable,
            "meaning_ok": right.astype(float),
            "tokens": rng.gamma(4, 40, n) * (1 + 0.1 * progress),
            "logprob_mean": -(1.2 - 0.7 * progress) * rng.uniform(0.6, 1.4, n),
            "parts.work": work,
            "parts.format": 0.1 * readable,
            "kept": ((high - low)[group] > 1e-6).astype(float),
        },
        {
            "split": words(np.zeros(n), ("train",)),
            "task": words(task, tuple(map(str, range(tasks)))),
            "group": words(group, tuple(map(str, range(steps * groups)))),
            "stop_reason": words(np.zeros(n), ("stop",)),
            "unmeasured_reason": words(lost, ("", "worker died")),
            "program_hash": words(np.arange(n), tuple(map(str, range(n)))),
        },
    )


def test_sound_runs_raise_no_alarm() -> None:
    alarms, rules = Counter(), Counter()
    for seed in range(RUNS):
        diagnosis = diagnose(sound(seed, gain=0.35))
        alarms.update(f"{f.level} {f.diagnostic}" for f in diagnosis.at(Level.WARN, Level.CRITICAL))
        rules.update(fired.rule for fired in diagnosis.fired)
    assert not any(alarm.startswith("critical") for alarm in alarms), alarms
    assert sum(alarms.values()) <= RUNS // 20, alarms
    assert sum(rules.values()) <= RUNS // 20, rules


def test_runs_that_stand_still_are_told_to_and_nothing_else() -> None:
    alarms = Counter()
    still = 0
    for seed in range(RUNS // 2):
        diagnosis = diagnose(sound(seed, gain=0.0))
        alarms.update(f.diagnostic for f in diagnosis.at(Level.WARN, Level.CRITICAL))
        learning = diagnosis.finding("learning")
        assert learning is not None
        still += learning.level is not Level.OK
    assert still >= 0.9 * (RUNS // 2)
    del alarms["learning"]
    assert sum(alarms.values()) <= 1, alarms
