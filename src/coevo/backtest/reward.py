"""A proposed reward, on recorded rollouts: what it would have told apart, and what it would have paid for.

A backtest cannot say what a policy would have learnt: the rollouts are those of the old reward. It says what the new one would have said of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from coevo.backtest import order
from coevo.backtest.filter import replay
from coevo.backtest.order import Change, dead_groups
from coevo.backtest.rescoring import UNTOLD, Rescored, Trained, agreement, rescore
from coevo.backtest.separation import rank_correlation
from coevo.evidence.types import Frame
from coevo.training.advantages import advantages
from coevo.training.settings import AdvantageConfig, FilterConfig, RewardConfig

GAIN = 1e-9
MOST = 200_000
"""Rollouts that are replayed; some seconds for each 100,000."""
BEHAVIOURS = {
    "gain": "truth above the parent's fitness",
    "loss": "a program whose truth is below the parent's fitness",
    "copy": "the parent handed back",
    "truncated": "cut off at the token limit",
    "format only": "could be read as a program, and gains nothing true",
    "nothing": "no program in it, and no copy",
}


class Side(NamedTuple):
    """What a reward makes of the rollouts."""

    dead_groups: int
    kept_groups: int
    """That the filter lets through."""
    reward_mean: float | None
    correlation: float | None
    """Spearman's, of reward and truth, over all rollouts."""
    advantage: float | None
    """Mean magnitude over all rollouts that are compared; those of dropped groups count 0."""
    positive: float | None
    """Share of rollouts that are pushed up."""
    effective: float | None
    """(sum |a|)^2 / sum a^2, as a share of all rollouts: 1 where all push alike, 1 / n where one does all."""
    aligned: float | None
    """Share of the weight |a| that pushes the way the truth says: up above the group's mean truth, down below it."""
    on_gains: float | None
    """Share of the upward weight on rollouts whose truth is above their parent's fitness."""


class Behaviour(NamedTuple):
    """What one kind of rollout earns under both."""

    name: str
    about: str
    rollouts: int
    reward_before: float | None
    reward_after: float | None
    advantage_before: float | None
    advantage_after: float | None


@dataclass(frozen=True)
class RewardBacktest:
    """A reward against the recorded one, on the rollouts that both can be told of."""

    groups: int
    rollouts: int
    compared: int
    """Measured rollouts for which the proposed reward could be computed."""
    before: Side
    after: Side
    revived: int
    """Groups that were dead and are not any more."""
    died: int
    order: Change
    behaviours: tuple[Behaviour, ...]
    reasons: Mapping[str, int]
    """Why the others could not be compared."""
    reused: tuple[str, ...]
    agreement: float | None
    """See `coevo.backtest.rescoring.agreement`."""
    notes: tuple[str, ...]

    @property
    def prediction(self) -> float | None:
        """The number that is held against what came of it: by how much the share of upward weight on true gains rises, in [-1, 1].

        Where truth or the parent's fitness is not known, the rise in live groups, as a share. (Of several such numbers this one tells what a search gains with the
        trained policy best: docs/backtest.md, "Do they predict?".)
        """
        if self.after.on_gains is not None and self.before.on_gains is not None:
            return self.after.on_gains - self.before.on_gains
        return (self.revived - self.died) / self.groups if self.groups else None

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": "reward",
            **{k: v for k, v in vars(self).items() if k not in ("before", "after", "order", "behaviours")},
            "reused": list(self.reused),
            "notes": list(self.notes),
            "reasons": dict(self.reasons),
            "before": {**self.before._asdict(), "order": self.order.before.to_dict()},
            "after": {**self.after._asdict(), "order": self.order.after.to_dict()},
            "mended": self.order.mended,
            "broken": self.order.broken,
            "behaviours": [one._asdict() for one in self.behaviours],
            "prediction": self.prediction,
        }


def backtest_reward(
    frame: Frame,
    reward: RewardConfig,
    advantage: AdvantageConfig | None = None,
    filter: FilterConfig | None = None,
    *,
    trained: Trained = UNTOLD,
    most: int = MOST,
) -> RewardBacktest:
    """Hold a reward (with advantage and filter) against what was recorded.

    `trained`: what the rollouts were made under. Where it is not known, "before" is the recorded reward under the proposed advantage and filter, and
    a proposed one left out is the recorded, or the default. The recorded reward itself needs no recomputing: backtesting it changes nothing.
    Of more than `most` rollouts, every k-th step is replayed (every k-th group, where there are no steps), and that is noted.
    """
    whole, frame = frame.rows, thinned(frame, most)
    old_advantage = trained.advantage or advantage or AdvantageConfig()
    old_filter = trained.filter or filter or FilterConfig()
    same = trained.reward == reward
    found = rescore(frame, reward, trained)
    rewards = frame.numbers("reward") if same else found.rewards
    both = frame.measured & np.isfinite(rewards)
    old, new = (np.where(both, values, np.nan) for values in (frame.numbers("reward"), rewards))
    labels = frame.groups
    sides = []
    for values, how, sieve in (
        (old, old_advantage, old_filter),
        (new, advantage or old_advantage, filter or old_filter),
    ):
        pushed = _advantages(labels, values, how)
        kept = replay(frame, values, sieve).kept
        sides.append((values, pushed, np.where(kept[labels], pushed, 0.0) if len(kept) else pushed, kept))
    there = np.bincount(labels[both], minlength=int(labels.max(initial=-1)) + 1) > 0
    was, now = dead_groups(labels, old) & there, dead_groups(labels, new) & there
    before, after = (
        _side(frame, values, weights, int((dead & there).sum()), int((kept & there).sum()))
        for (values, _, weights, kept), dead in zip(sides, (was, now), strict=True)
    )
    return RewardBacktest(
        groups=int(there.sum()),
        rollouts=int(frame.measured.sum()),
        compared=int(both.sum()),
        before=before,
        after=after,
        revived=int((was & ~now).sum()),
        died=int((now & ~was).sum()),
        order=order.compare(labels, frame.numbers("truth"), old, new),
        behaviours=_behaviours(found, both, sides[0], sides[1]),
        reasons={} if same else found.reasons,
        reused=found.reused,
        agreement=agreement(frame, trained),
        notes=(*_thinned_note(whole, frame.rows), *_notes(frame, reward, trained, found)),
    )


def thinned(frame: Frame, most: int) -> Frame:
    """Every k-th step, whole, so that at most about `most` rows are left; groups where rows have no step."""
    if frame.rows <= most:
        return frame
    steps = frame.numbers("step")
    _, places = np.unique(steps, return_inverse=True)
    labels = places if np.isfinite(steps).all() else frame.groups
    return frame.where(labels % math.ceil(frame.rows / most) == 0)


def _thinned_note(whole: int, rows: int) -> tuple[str, ...]:
    return (f"{rows:,} of {whole:,} rows were replayed, whole steps evenly over the course",) if rows < whole else ()


def _advantages(labels: np.ndarray, values: np.ndarray, config: AdvantageConfig) -> np.ndarray:
    """By row; NaN where there is no reward."""
    found = np.full(len(values), np.nan)
    for rows in order.batches(labels, np.isfinite(values)):
        for group in rows:
            made = advantages([[float(value)] for value in values[group]], config)
            found[group] = [np.nan if row[0] is None else row[0] for row in made]
    return found


def _side(frame: Frame, values: np.ndarray, weights: np.ndarray, dead: int, kept: int) -> Side:
    fine = np.isfinite(values)
    truth, labels, parent = frame.numbers("truth"), frame.groups, frame.numbers("parent_fitness")
    a = np.where(fine, np.nan_to_num(weights), 0.0)
    n, total, squares = int(fine.sum()), float(np.abs(a).sum()), float((a * a).sum())
    told = fine & np.isfinite(truth)
    counts = np.bincount(labels[told], minlength=int(labels.max(initial=-1)) + 1)
    means = np.bincount(labels[told], weights=truth[told], minlength=len(counts)) / np.maximum(counts, 1)
    better = np.where(told, truth - means[labels] if len(means) else 0.0, 0.0)
    decided = np.abs(better) > GAIN
    weighed = float(np.abs(a[decided]).sum())
    up = np.where(np.isfinite(truth) & np.isfinite(parent), np.maximum(a, 0.0), 0.0)
    return Side(
        dead_groups=dead,
        kept_groups=kept,
        reward_mean=float(values[fine].mean()) if n else None,
        correlation=rank_correlation(values[told].tolist(), truth[told].tolist()),
        advantage=total / n if n else None,
        positive=float((a[fine] > 0).mean()) if n else None,
        effective=total * total / squares / n if squares else None,
        aligned=float(np.abs(a[decided & (np.sign(a) == np.sign(better))]).sum()) / weighed if weighed else None,
        on_gains=float(up[truth - parent > GAIN].sum() / up.sum()) if up.sum() else None,
    )


def _behaviours(
    found: Rescored, both: np.ndarray, before: Sequence[np.ndarray], after: Sequence[np.ndarray]
) -> tuple[Behaviour, ...]:
    frame, rebuilt = found.rebuilt.frame, found.rebuilt
    gain = frame.numbers("truth") - frame.numbers("parent_fitness")
    copied = rebuilt.copied == 1
    kinds = {
        "gain": rebuilt.program & (gain > GAIN),
        "loss": rebuilt.program & (gain < -GAIN),
        "copy": copied,
        "truncated": frame.is_word("stop_reason", "length"),
        "format only": rebuilt.program & (gain <= GAIN),
        "nothing": ~rebuilt.program & (rebuilt.copied == 0),
    }
    rows = []
    for name, mask in kinds.items():
        mask = mask & both
        if mask.any():
            numbers = (_mean(side[i][mask]) for i in (0, 2) for side in (before, after))
            rows.append(Behaviour(name, BEHAVIOURS[name], int(mask.sum()), *numbers))
    return tuple(rows)


def _mean(values: np.ndarray) -> float | None:
    fine = values[np.isfinite(values)]
    return float(fine.mean()) if len(fine) else None


def _notes(frame: Frame, reward: RewardConfig, trained: Trained, found: Rescored) -> tuple[str, ...]:
    notes = list(found.rebuilt.notes)
    if "lazy" in reward.parts:
        notes.append("lazy: attempts shown and the archive are not in the evidence, so a repeat of one is paid as new")
    if trained.reward is None:
        notes.append("what the rollouts were trained under is not known: recorded rewards are taken as they are")
    elif extra := sorted(set(frame.parts) - set(trained.reward.parts)):
        notes.append(f"recorded parts {', '.join(extra)} are of no reward that can be proposed; after, they are gone")
    if not frame.has("truth"):
        notes.append("there is no truth: nothing can be said of order against it")
    if (frame.numbers("turns") > 1).any() and trained.reward is not None:
        notes.append("the recorded reward of several turns is their sum; the proposed one is of the best turn")
    return tuple(notes)
