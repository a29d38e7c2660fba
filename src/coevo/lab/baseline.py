"""The weights that a lab began with, as a yardstick: whether training has made the policy better than it was, or worse.

The gate holds a branch against its parent. Where the first recipe spoils the policy, every repair is a gain over that parent, and none need be one
over the model that nobody has trained.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any

from coevo.stats import bootstrap_ci

NAME = "base"
"""In rows and samples, where branches have theirs."""

Samples = Mapping[str, Sequence[float | None]]


@dataclass(frozen=True)
class Baseline:
    """A branch against the base weights, on the same tasks."""

    branch: str
    base: float
    """Mean worth of the base weights (`measuring.worth`), over tasks."""
    difference: float
    """The branch's less that."""
    low: float
    high: float
    """95 %, bootstrap over tasks."""
    tasks: int

    @property
    def spoilt(self) -> bool:
        """Whether training has surely made it worse."""
        return self.high < 0

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    def told(self) -> str:
        """In a few words."""
        return f"{self.difference:+.3f} [{self.low:+.3f}, {self.high:+.3f}] against the base weights ({self.base:.3f})"


def against_base(branch: str, base: Samples, trained: Samples, *, seed: int) -> Baseline | None:
    """None where fewer than two tasks were measured for both."""
    before, after = _means(base), _means(trained)
    tasks = [task for task in before if task in after]
    if len(tasks) < 2:
        return None
    interval = bootstrap_ci([after[task] - before[task] for task in tasks], seed=seed)
    start = fmean(before[task] for task in tasks)
    return Baseline(branch, start, interval.estimate, interval.low, interval.high, len(tasks))


def _means(samples: Samples) -> dict[str, float]:
    known = {task: [v for v in values if v is not None] for task, values in samples.items()}
    return {task: fmean(values) for task, values in known.items() if values}


def baseline_of(data: Mapping[str, Any] | None) -> Baseline | None:
    """As stored; None for labs that did not measure it."""
    return None if not data else Baseline(**data)
