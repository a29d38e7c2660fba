"""Rows for cases: a small run in memory, made by a function of where a rollout stands."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from coevo.streams import array_stream


class Spot(NamedTuple):
    """Where a rollout of a made-up run stands."""

    step: int
    """From 1."""
    group: int
    """In its step, from 0; also its task."""
    sample: int
    progress: float
    """Of the run: 0 at the first step, 1 at the last."""
    rng: np.random.Generator


Make = Callable[[Spot], Mapping[str, Any]]


def rows_of(
    make: Make, *, steps: int = 30, groups: int = 4, size: int = 8, seed: int = 0, split: str = "train"
) -> Callable[[], Sequence[Mapping[str, Any]]]:
    """What a `Case` holds: makes the rows of a run of `steps` steps, of `groups` groups of `size` rollouts each; `make` gives what matters
    of a row, or takes a column away by None. The same rows every time."""

    def rows() -> Sequence[Mapping[str, Any]]:
        rng = array_stream(seed, "casebook", steps, groups, size)
        return [
            {
                **_plain(step, group, sample, split),
                **make(Spot(step, group, sample, (step - 1) / max(1, steps - 1), rng)),
            }
            for step in range(1, steps + 1)
            for group in range(groups)
            for sample in range(size)
        ]

    return rows


def _plain(step: int, group: int, sample: int, split: str) -> dict[str, Any]:
    return {
        "schema": 1,
        "run": "case",
        "branch": "main",
        "step": step,
        "split": split,
        "task": f"task-{group}",
        "group": f"{step}.{group}",
        "sample": sample,
        "unmeasured_reason": "",
    }


def coin(spot: Spot, chance: float) -> float:
    """1.0 with that chance, else 0.0."""
    return float(spot.rng.random() < chance)


def ramp(spot: Spot, first: float, last: float) -> float:
    """Linear over the run."""
    return first + (last - first) * spot.progress
