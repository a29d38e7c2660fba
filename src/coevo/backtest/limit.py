"""A limit on tokens or turns, on recorded rollouts: what it would have saved, and what it would have cut off."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from coevo.errors import UsageError
from coevo.evidence.types import Frame

GAIN = 1e-9
RIGHT = 0.5
"""Truth from which on a rollout without a parent counts as true."""


class Cut(NamedTuple):
    """Of one kind of rollout."""

    name: str
    rollouts: int
    cut: int

    @property
    def share(self) -> float | None:
        return self.cut / self.rollouts if self.rollouts else None

    def to_dict(self) -> dict[str, Any]:
        return {**self._asdict(), "share": self.share}


@dataclass(frozen=True)
class LimitBacktest:
    """What a limit would have cut."""

    limit: str
    all: Cut
    rewarded: Cut
    """Rollouts with more than their group's mean reward: those that training pushed up."""
    true: Cut
    """Truth above the parent's fitness; where rows have no parent, truth of 0.5 or more."""
    tokens: float
    tokens_saved: float
    """Of replies that would have been cut, what lies beyond the limit (for turns: as if all turns of a rollout were equally long)."""
    notes: tuple[str, ...] = ()

    @property
    def saved_share(self) -> float | None:
        return self.tokens_saved / self.tokens if self.tokens else None

    @property
    def prediction(self) -> float | None:
        """The number that is held against what came of it: share of tokens saved less share of true rollouts cut (rewarded ones, where none is known to be true)."""
        lost = self.true.share if self.true.rollouts else self.rewarded.share
        return None if lost is None or self.saved_share is None else self.saved_share - lost

    def to_dict(self) -> dict[str, Any]:
        cuts = {name: getattr(self, name).to_dict() for name in ("all", "rewarded", "true")}
        shares = {"saved_share": self.saved_share, "prediction": self.prediction}
        return {"kind": "limit", **vars(self), **cuts, "notes": list(self.notes), **shares}


def backtest_limit(frame: Frame, *, max_tokens: int | None = None, turns: int | None = None) -> LimitBacktest:
    """Which rollouts a limit of `max_tokens` sampled tokens, or of `turns`, would have cut. Of measured rollouts.

    A reply that would have been cut might have been shorter had the policy known of the limit; that cannot be replayed.
    """
    if (max_tokens is None) == (turns is None):
        raise UsageError("a limit is either max_tokens or turns; give one of them")
    limit = max_tokens if max_tokens is not None else turns
    assert limit is not None
    name = "tokens" if turns is None else "turns"
    if limit < 1:
        raise UsageError(f"a limit of {limit} {name} cuts everything; give 1 or more")
    size, tokens = frame.numbers(name), np.nan_to_num(frame.numbers("tokens"))
    if not frame.has(name):
        raise UsageError(
            f"{frame.source or 'this evidence'} has no column {name!r}, so a limit on it cannot be replayed"
        )
    measured = frame.measured & np.isfinite(size)
    cut = measured & (size > limit)
    beyond = np.maximum(0.0, 1 - limit / np.where(size > 0, size, np.inf))
    return LimitBacktest(
        limit=f"{limit} {name}",
        all=_cut("all", measured, cut),
        rewarded=_cut("rewarded", measured & above_group(frame), cut),
        true=_cut("true", measured & true_gains(frame), cut),
        tokens=float(tokens[measured].sum()),
        tokens_saved=float((tokens * beyond)[cut].sum()),
        notes=_notes(frame, name, limit),
    )


def true_gains(frame: Frame) -> np.ndarray:
    """bool of (rows,): truth above the parent's fitness; without a parent, of `RIGHT` or more."""
    truth, parent = frame.numbers("truth"), frame.numbers("parent_fitness")
    return np.where(np.isfinite(parent), truth - parent > GAIN, truth >= RIGHT)


def above_group(frame: Frame) -> np.ndarray:
    """bool of (rows,): more reward than the mean of its group."""
    reward = np.where(frame.measured, frame.numbers("reward"), np.nan)
    labels, fine = frame.groups, np.isfinite(reward)
    counts = np.bincount(labels[fine], minlength=int(labels.max(initial=-1)) + 1)
    means = np.bincount(labels[fine], weights=reward[fine], minlength=len(counts)) / np.maximum(counts, 1)
    return fine & (reward > means[labels] + GAIN) if len(means) else fine


def _cut(name: str, mask: np.ndarray, cut: np.ndarray) -> Cut:
    return Cut(name, int(mask.sum()), int((mask & cut).sum()))


def _notes(frame: Frame, name: str, limit: int) -> tuple[str, ...]:
    notes = []
    already = frame.numbers(name)[frame.is_word("stop_reason", "length")]
    if name == "tokens" and len(already) and limit >= np.nanmax(already):
        notes.append(
            "the rollouts were already cut at a lower limit: what a higher one would let through cannot be replayed"
        )
    if not frame.has("truth"):
        notes.append("there is no truth: only rewarded rollouts are known")
    return tuple(notes)
