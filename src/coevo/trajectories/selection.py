"""The two-stage diversity filter of MetaEvolve (arXiv 2607.21971, section on data): tasks whose answers differ, and of their
answers those that are both good and unlike each other. Pure functions of what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from coevo.trajectories.distances import Profile, behaviour_distance, combined
from coevo.trajectories.settings import DiversityConfig

PAIRS = 2000
"""Pairs whose distances are averaged at most; with more answers, evenly spaced ones of all pairs."""


@dataclass(frozen=True)
class Selection:
    """Indices of the answers kept, in the order in which they were chosen, and why the others were not."""

    kept: tuple[int, ...]
    too_near: int = 0
    too_far: int = 0
    too_many: int = 0
    """Those that were left when `keep` had been reached."""


def problem_measure(config: DiversityConfig, profiles: Sequence[Profile], answers: int) -> float:
    """How much a task's distinct answers differ, by `config.measure`. `answers` counts them with their copies."""
    if config.measure == "programs":
        return len(profiles) / answers if answers else 0.0
    if len(profiles) < 2:
        return 0.0
    if config.measure == "fitness_spread":
        values = [p.fitness for p in profiles]
        return max(values) - min(values)
    pairs = list(combinations(profiles, 2))
    pairs = pairs[:: -(-len(pairs) // PAIRS)]
    return sum(behaviour_distance(a, b) for a, b in pairs) / len(pairs)


def worth_keeping(config: DiversityConfig, profiles: Sequence[Profile], answers: int) -> bool:
    """Problem level: whether a task's answers differ enough to be of use."""
    return config.measure == "none" or config.low <= problem_measure(config, profiles, answers) <= config.high


def select(config: DiversityConfig, profiles: Sequence[Profile]) -> Selection:
    """Response level: greedy max-min selection.

    The best answer comes first. Then, again and again, the one with the largest quality * fitness + (1 - quality) * distance to
    the nearest kept answer, among those whose distance lies in [nearest, farthest]; fitness is scaled to [0, 1] over the task's answers. Ties go
    to the earlier answer.
    """
    if not profiles:
        return Selection(())
    fitness = [p.fitness for p in profiles]
    low, spread = min(fitness), max(fitness) - min(fitness)
    quality = [(f - low) / spread if spread else 0.0 for f in fitness]
    kept = [max(range(len(profiles)), key=lambda i: (quality[i], -i))]
    nearest = [1.0] * len(profiles)
    left = [i for i in range(len(profiles)) if i != kept[0]]
    too_near = 0
    while left and len(kept) < config.keep:
        for i in left:
            nearest[i] = min(nearest[i], combined(config.distances, profiles[i], profiles[kept[-1]]))
        near = {i for i in left if nearest[i] < config.nearest}
        too_near += len(near)
        left = [i for i in left if i not in near]
        eligible = [i for i in left if nearest[i] <= config.farthest]
        if not eligible:
            return Selection(tuple(kept), too_near, too_far=len(left))
        chosen = max(eligible, key=lambda i: (config.quality * quality[i] + (1 - config.quality) * nearest[i], -i))
        kept.append(chosen)
        left.remove(chosen)
    return Selection(tuple(kept), too_near, too_many=len(left))
