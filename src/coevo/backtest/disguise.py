"""Branches without what names them: what is left to tell them apart is what their rollouts do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from coevo.backtest.types import Past
from coevo.evidence.types import Frame, Words
from coevo.streams import array_stream

LEAST_GROUPS, LEAST_SIZE = 4, 2
"""Branches with fewer groups, or smaller ones, are not what the others are cut to."""
_NAMES = ("run", "branch", "group")


class Size(NamedTuple):
    """What a branch is cut to; 0: no bound."""

    groups: int = 0
    rows_a_group: int = 0
    rows: int = 0


def disguised(branches: Sequence[Past], *, seed: int) -> list[Past]:
    """The same branches with steps numbered from 0 on, rows in random order, runs, branches and groups renamed, and all cut to one size: as many groups, as
    large, and as many rollouts as the smallest has.

    Groups are drawn at random and whole where they are not too large, so courses over steps and comparisons within groups stay.
    """
    counts = [np.bincount(b.frame.groups) for b in branches if b.frame.rows]
    size = Size(
        min((len(c) for c in counts if len(c) >= LEAST_GROUPS), default=0),
        min((int(c.max()) for c in counts if c.max() >= LEAST_SIZE), default=0),
    )
    frames = [_disguised(b.frame, size, seed) for b in branches]
    rows = min((f.rows for f in frames if f.rows >= LEAST_GROUPS * LEAST_SIZE), default=0)
    return [
        replace(
            b,
            frame=frame.where(np.arange(frame.rows) < rows) if rows else frame,
            baseline=None if b.baseline is None else _disguised(b.baseline, Size(), seed),
        )
        for b, frame in zip(branches, frames, strict=True)
    ]


def _disguised(frame: Frame, size: Size, seed: int) -> Frame:
    rng = array_stream(seed, "disguise", frame.rows)
    groups = frame.groups
    count = int(groups.max(initial=-1)) + 1
    kept = rng.permutation(count)[: size.groups or count]
    rows = rng.permutation(np.flatnonzero(np.isin(groups, kept)))
    if size.rows_a_group:
        rows = rows[_place_in_group(groups[rows]) < size.rows_a_group]
    steps = frame.numbers("step")[rows]
    known = np.isfinite(steps)
    _, names = np.unique(groups[rows], return_inverse=True)
    words = {n: Words(w.codes[rows], w.values) for n, w in frame.words_by_name.items() if n not in _NAMES}
    words["group"] = Words(names.astype(np.int64), tuple(f"g{i}" for i in range(int(names.max(initial=-1)) + 1)))
    numbers = {n: c[rows] for n, c in frame.numbers_by_name.items()}
    if known.any():
        numbered = np.full(len(rows), np.nan)
        numbered[known] = np.unique(steps[known], return_inverse=True)[1]
        numbers["step"] = numbered
    numbering = np.arange(frame.rows) if frame.numbering is None else frame.numbering
    return Frame(len(rows), numbers, words, "a disguised branch", (), numbering[rows], frame.fetch)


def _place_in_group(labels: np.ndarray) -> np.ndarray:
    """Which of its group each row is, from 0, in their order."""
    order = np.argsort(labels, kind="stable")
    ordered = labels[order]
    first = (
        np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])) if len(ordered) else np.empty(0, dtype=np.int64)
    )
    places = np.empty(len(labels), dtype=np.int64)
    places[order] = np.arange(len(labels)) - np.repeat(first, np.diff(np.append(first, len(labels))))
    return places
