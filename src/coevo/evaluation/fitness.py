"""The one formula from measurements to fitness, used by search, reward, bench and lab alike. Higher is better.

Fitness is never negative, and a failed program's is 0, so that no order or average anywhere can prefer failing.
"""

from __future__ import annotations

import math
from typing import Literal

from coevo.errors import TaskError
from coevo.tasks.types import BestKnown, FitnessConfig

FAILED = 0.0
"""Fitness of a program that has no score."""


def efficiency_of(speedup: float) -> float:
    """s / (1 + s) for a speed-up s over the reference: 0.5 is the reference's speed, 1 is out of reach."""
    return speedup / (1 + speedup) if math.isfinite(speedup) else 1.0


def fitness_of(
    config: FitnessConfig, *, correctness: float, efficiency: float | None = None, seconds: float | None = None
) -> float:
    """Fitness of kinds function and stdio, in [0, 1].

    `correctness` is the share of tests passed. `efficiency` is None where the task does not time programs (then fitness
    is correctness), and 0 for a program that was not timed because it is not right. `seconds` is the CPU time of one
    timed input.

    weighted: (w_c * correctness + w_e * correctness * efficiency) / (w_c + w_e).
    metaevolve: the same with min(1 / (1000 * (seconds + 1e-6)), 1) for the efficiency, which saturates at 1 ms (as
    far as can be told from MetaEvolve, arXiv 2607.21971, which leaves the weights open).
    correctness: the share alone.
    """
    if config.name == "correctness" or efficiency is None:
        return correctness
    total = config.correctness + config.efficiency
    if total <= 0:
        raise TaskError("fitness.correctness and fitness.efficiency are both 0; give at least one of them a weight")
    if config.name == "metaevolve":
        efficiency = 0.0 if seconds is None else min(1 / ((seconds + 1e-6) * 1000), 1.0)
    return correctness * (config.correctness + config.efficiency * efficiency) / total


def open_fitness(score: float, direction: Literal["max", "min"], best_known: BestKnown | None) -> float:
    """Fitness of a feasible answer with a finite score; strictly monotone in the score (but for the clip at 0).

    With a positive best known value b, 1 is the best published and more beats it:
    direction max: score / b, and 0 below 0; direction min: b / score down to b, and 2 - score / b below it (the tangent
    in b, so that a score of 0 or less, which b / score cannot order, is ordered too).

    Without one, x = score (max) or -score (min) is mapped onto the positive numbers: 1 + x, and 1 / (1 - x) for x < 0.
    """
    if best_known is not None and best_known.value > 0:
        ratio = score / best_known.value
        if direction == "max":
            return _finite(max(0.0, ratio))
        return 1 / ratio if ratio >= 1 else _finite(2 - ratio)
    x = score if direction == "max" else -score
    return _finite(1 + x) if x >= 0 else 1 / (1 - x)


def _finite(value: float) -> float:
    return min(value, 1.7976931348623157e308)
