"""Branches without what names them: what is left to tell them apart is what their rollouts do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from coevo.backtest.types import Past
from coevo.evidence.types import Frame, Words
from coevo.streams import array_stream

LEAST_GROUPS = 4
"""Branches with fewer groups are not cut to the others' size, nor the others to theirs."""
_NAMES = ("run", "branch", "group")


def disguised(branches: Sequence[Past], *, seed: int) -> list[Past]:
    """The same branches with steps numbered from 0 on, rows in random order, runs, branches and groups renamed, and all cut to as many groups as the smallest has.

    Groups are drawn at random, whole, so courses over steps and comparisons within groups stay.
    """
    counts = [len(np.unique(b.frame.groups)) for b in branches]
    size = min((count for count in counts if count >= LEAST_GROUPS), default=0)
    return [
        replace(
            b,
            frame=_disguised(b.frame, size, seed),
            baseline=None if b.baseline is None else _disguised(b.baseline, 0, seed),
        )
        for b in branches
    ]


def _disguised(frame: Frame, size: int, seed: int) -> Frame:
    rng = array_stream(seed, "disguise", frame.rows)
    groups, labels = np.unique(frame.groups, return_inverse=True)
    kept = rng.permutation(len(groups))[:size] if 0 < size < len(groups) else np.arange(len(groups))
    rows = rng.permutation(np.flatnonzero(np.isin(labels, kept)))
    steps = frame.numbers("step")[rows]
    known = np.isfinite(steps)
    numbered = np.full(len(rows), np.nan)
    numbered[known] = np.unique(steps[known], return_inverse=True)[1]
    _, names = np.unique(labels[rows], return_inverse=True)
    words = {n: Words(w.codes[rows], w.values) for n, w in frame.words_by_name.items() if n not in _NAMES}
    words["group"] = Words(names.astype(np.int64), tuple(f"g{i}" for i in range(int(names.max(initial=-1)) + 1)))
    numbers = {n: c[rows] for n, c in frame.numbers_by_name.items()}
    if known.any():
        numbers["step"] = numbered
    numbering = np.arange(frame.rows) if frame.numbering is None else frame.numbering
    return Frame(len(rows), numbers, words, "a disguised branch", (), numbering[rows], frame.fetch)
