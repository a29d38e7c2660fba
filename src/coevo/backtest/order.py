"""Order within groups: where does a reward put rollouts the other way round than the truth? And what advantages push on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from coevo.training.advantages import DEAD

LARGE = 512
"""Of larger groups the first so many rollouts are compared: pairs grow with the square."""
_CELLS = 4_000_000


class Order(NamedTuple):
    """Pairs of rollouts of one group whose truth differs."""

    agree: int
    """The reward puts the truer one higher."""
    invert: int
    """It puts it lower."""
    tie: int
    """It does not tell them apart."""

    @property
    def pairs(self) -> int:
        return self.agree + self.invert + self.tie

    @property
    def score(self) -> float | None:
        """(agree - invert) / pairs, in [-1, 1]: Kendall's tau where truth has no ties (Somers' d of the reward given the truth)."""
        return (self.agree - self.invert) / self.pairs if self.pairs else None

    def to_dict(self) -> dict[str, float | int | None]:
        return {**self._asdict(), "pairs": self.pairs, "score": self.score}


class Change(NamedTuple):
    """The same pairs under two rewards."""

    before: Order
    after: Order
    mended: int
    """Pairs inverted before and not after."""
    broken: int
    """Pairs that were not inverted before and are after."""


def compare(labels: np.ndarray, truth: np.ndarray, before: np.ndarray, after: np.ndarray) -> Change:
    """All arrays are (rows,); rows that are NaN in any of the three are in no pair. Values count as equal up to a relative difference of 1e-9."""
    fine = np.isfinite(truth) & np.isfinite(before) & np.isfinite(after)
    counts = np.zeros((2, 3), dtype=np.int64)
    mended = broken = 0
    for rows in batches(labels, fine, least=2):
        rows = rows[:, :LARGE]
        real = _signs(truth[rows])
        pair = (real != 0) & np.triu(np.ones(real.shape[1:], dtype=bool), 1)
        sides = [(_signs(values[rows]) * real)[pair] for values in (before, after)]
        for i, side in enumerate(sides):
            counts[i] += [(side > 0).sum(), (side < 0).sum(), (side == 0).sum()]
        mended += int(((sides[0] < 0) & (sides[1] >= 0)).sum())
        broken += int(((sides[0] >= 0) & (sides[1] < 0)).sum())
    first, second = (Order(*map(int, row)) for row in counts)
    return Change(first, second, mended, broken)


def batches(labels: np.ndarray, mask: np.ndarray, *, least: int = 1) -> Iterator[np.ndarray]:
    """Row numbers of the groups' masked rows, int64 of (groups, size), groups of one size together, in pieces of bounded size."""
    rows = np.flatnonzero(mask)
    order = rows[np.argsort(labels[rows], kind="stable")]
    _, starts, counts = np.unique(labels[order], return_index=True, return_counts=True)
    for size in np.unique(counts):
        if size < least:
            continue
        table = order[starts[counts == size][:, None] + np.arange(size)]
        piece = max(1, _CELLS // int(min(size, LARGE)) ** 2)
        for at in range(0, len(table), piece):
            yield table[at : at + piece]


def dead_groups(labels: np.ndarray, values: np.ndarray) -> np.ndarray:
    """bool of (groups,): whether a group's known values have no spread (as `coevo.training.advantages.is_dead` has it); so for fewer than two."""
    size = int(labels.max(initial=-1)) + 1
    found = np.ones(size, dtype=bool)
    for rows in batches(labels, np.isfinite(values), least=2):
        some = values[rows]
        low, high = some.min(axis=1), some.max(axis=1)
        scale = np.maximum(1.0, np.maximum(np.abs(low), np.abs(high)))
        found[labels[rows[:, 0]]] = high - low <= DEAD * scale
    return found


def _signs(values: np.ndarray) -> np.ndarray:
    """Of all differences within each group, (groups, n, n); 0 for values that are equal."""
    difference = values[:, :, None] - values[:, None, :]
    scale = np.maximum(1.0, np.abs(values).max(axis=1))[:, None, None]
    return np.where(np.abs(difference) <= 1e-9 * scale, 0.0, np.sign(difference))
