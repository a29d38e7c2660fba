"""A group filter, on recorded rollouts: what it would have let through, and what its mean would have looked like."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from coevo.backtest.order import dead_groups
from coevo.evidence.types import Frame
from coevo.training.filters import FilterState, decide
from coevo.training.settings import FilterConfig

BANDS = ("hard", "middling", "easy")


class Replay(NamedTuple):
    """The filter's word on every group, by the frame's group numbers."""

    kept: np.ndarray
    """bool of (groups,)."""
    reasons: tuple[str, ...]


class Band(NamedTuple):
    """Groups of tasks of one difficulty: a third of the tasks, by their mean truth (reward, where there is none)."""

    name: str
    low: float
    high: float
    groups: int
    kept: int


@dataclass(frozen=True)
class FilterBacktest:
    """What a filter would have done to these rollouts."""

    groups: int
    kept: int
    dead: int
    """Groups without a spread, which no advantage can use."""
    live_dropped: int
    """Groups with a spread that it drops."""
    recorded_kept: float | None
    """Share of the groups that were kept then; None where nothing was filtered."""
    bands: tuple[Band, ...]
    spread_all: float | None
    """Mean max - min of the rewards of a group."""
    spread_kept: float | None
    variance_kept: float | None
    """Share of the squared deviations of rewards from their group's mean that is left: what is left to learn from."""
    reward_all: float | None
    reward_kept: float | None
    truth_all: float | None
    truth_kept: float | None
    notes: tuple[str, ...] = ()

    @property
    def kept_share(self) -> float | None:
        return self.kept / self.groups if self.groups else None

    @property
    def bias(self) -> float | None:
        """reward_kept - reward_all: by how much a curve of kept rewards would lie above (below) the policy's own."""
        return None if self.reward_kept is None or self.reward_all is None else self.reward_kept - self.reward_all

    @property
    def prediction(self) -> float | None:
        """The number that is held against what came of it: the share of the signal it keeps, over the share of the groups."""
        share = self.kept_share
        return self.variance_kept / share if share and self.variance_kept is not None else None

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": "filter",
            **vars(self),
            "bands": [band._asdict() for band in self.bands],
            "notes": list(self.notes),
            "kept_share": self.kept_share,
            "bias": self.bias,
            "prediction": self.prediction,
        }


def replay(frame: Frame, rewards: np.ndarray, config: FilterConfig) -> Replay:
    """Show the groups of each step to the filter, in order of steps; it remembers what it would have."""
    labels = frame.groups
    size = int(labels.max(initial=-1)) + 1
    kept, reasons = np.ones(size, dtype=bool), [""] * size
    order = np.argsort(labels, kind="stable")
    _, starts = np.unique(labels[order], return_index=True)
    members = np.split(order, starts[1:]) if size else []
    steps = np.nan_to_num(frame.numbers("step")[order[starts]], nan=-1.0)
    state = FilterState()
    for step in np.unique(steps):
        found = np.flatnonzero(steps == step)
        groups = [[None if np.isnan(value) else float(value) for value in rewards[members[g]]] for g in found]
        decision = decide(config, state, groups)
        state = decision.state
        for g, keep, reason in zip(found, decision.kept, decision.reasons, strict=True):
            kept[g], reasons[g] = keep, reason
    return Replay(kept, tuple(reasons))


def backtest_filter(frame: Frame, filter: FilterConfig, *, rewards: np.ndarray | None = None) -> FilterBacktest:
    """What `filter` would have kept of the recorded groups. `rewards`, (rows,): instead of the recorded ones.

    Every step is one round: groups that were sampled to replace dropped ones are judged with the others.
    """
    values = np.where(frame.measured, frame.numbers("reward") if rewards is None else rewards, np.nan)
    labels, truth = frame.groups, frame.numbers("truth")
    fine = np.isfinite(values)
    counts = np.bincount(labels[fine], minlength=int(labels.max(initial=-1)) + 1)
    there = counts > 0
    kept = replay(frame, values, filter).kept & there
    dead = dead_groups(labels, values) & there
    means = np.bincount(labels[fine], weights=values[fine], minlength=len(counts)) / np.maximum(counts, 1)
    squares = np.bincount(labels[fine], weights=(values[fine] - means[labels[fine]]) ** 2, minlength=len(counts))
    low, high = np.full(len(counts), np.inf), np.full(len(counts), -np.inf)
    np.minimum.at(low, labels[fine], values[fine])
    np.maximum.at(high, labels[fine], values[fine])
    spread = np.where(there, high - low, 0.0)
    rows_kept = kept[labels] & fine if len(kept) else fine
    told = np.isfinite(truth) & fine
    return FilterBacktest(
        groups=int(there.sum()),
        kept=int(kept.sum()),
        dead=int(dead.sum()),
        live_dropped=int((there & ~kept & ~dead).sum()),
        recorded_kept=_recorded(frame, fine),
        bands=_bands(frame, values, kept, there),
        spread_all=_mean(spread[there]),
        spread_kept=_mean(spread[kept]),
        variance_kept=float(squares[kept].sum() / squares.sum()) if squares.sum() > 0 else None,
        reward_all=_mean(values[fine]),
        reward_kept=_mean(values[rows_kept]),
        truth_all=_mean(truth[told]),
        truth_kept=_mean(truth[told & rows_kept]),
        notes=_notes(frame, filter),
    )


def _recorded(frame: Frame, fine: np.ndarray) -> float | None:
    """Share of groups of which any rollout was kept."""
    kept, labels = frame.numbers("kept"), frame.groups
    told = fine & np.isfinite(kept)
    if not told.any():
        return None
    size = int(labels.max()) + 1
    some = np.bincount(labels[told], weights=kept[told], minlength=size) > 0
    known = np.bincount(labels[told], minlength=size) > 0
    return float(some[known].mean())


def _bands(frame: Frame, values: np.ndarray, kept: np.ndarray, there: np.ndarray) -> tuple[Band, ...]:
    """By thirds of the tasks; fewer where there are fewer tasks, none where tasks have no name."""
    tasks, labels = frame.words("task").codes, frame.groups
    worth = frame.numbers("truth") if frame.has("truth") else values
    fine = np.isfinite(worth) & (tasks >= 0)
    if not fine.any():
        return ()
    counts = np.bincount(tasks[fine])
    mean = np.bincount(tasks[fine], weights=worth[fine]) / np.where(counts, counts, np.nan)
    known = np.flatnonzero(counts)
    known = known[np.argsort(mean[known], kind="stable")]
    first = np.zeros(len(kept), dtype=np.int64)
    first[labels[::-1]] = np.arange(len(labels))[::-1]
    task_of = tasks[first]
    found = []
    names = BANDS if len(known) >= len(BANDS) else ("hard", "easy") if len(known) == 2 else ("all",)
    for name, part in zip(names, np.array_split(known, len(names)), strict=True):
        mine = np.isin(task_of, part) & there
        found.append(Band(name, float(mean[part[0]]), float(mean[part[-1]]), int(mine.sum()), int((mine & kept).sum())))
    return tuple(found)


def _notes(frame: Frame, filter: FilterConfig) -> tuple[str, ...]:
    notes = []
    if not frame.has("step"):
        notes.append("rows have no step: all groups are judged as one round")
    if filter.name == "ema_threshold":
        steps = len(np.unique(frame.numbers("step")[np.isfinite(frame.numbers("step"))]))
        silent = max(20, round(1 / filter.decay))
        notes.append(f"ema_threshold drops no live group in its first {silent} rounds; there are {steps} steps")
    return tuple(notes)


def _mean(values: np.ndarray) -> float | None:
    return float(values.mean()) if len(values) else None
