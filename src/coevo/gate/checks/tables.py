"""Per-task means of the rows behind the looks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal

import numpy as np

from coevo.errors import UsageError
from coevo.evidence.features import at_sight
from coevo.evidence.types import Frame
from coevo.gate.checks.integrity import has_reason
from coevo.gate.types import Look, Seen

Column = Callable[[Frame], np.ndarray]
"""float64 of (rows,), NaN where it says nothing."""


def frames_of(seen: Seen, arm: Literal["parent", "child"], split: str | None = None) -> list[Frame]:
    """The rows behind the looks of one arm."""
    looks: Sequence[Look] = [look for look in seen.looks if split in (None, look.split)]
    frames = [look.parent_frame if arm == "parent" else look.child_frame for look in looks]
    return [frame for frame in frames if frame is not None]


def means(frames: Sequence[Frame], tasks: Sequence[str], column: Column, *, lacking: float | None = None) -> np.ndarray:
    """float64 of (tasks,): mean of a column over the measured rows of each task, NaN without any. `lacking`: what a row that was not measured
    counts as; None leaves it out."""
    place = {task: i for i, task in enumerate(tasks)}
    sums, counts = np.zeros(len(tasks)), np.zeros(len(tasks))
    for frame in frames:
        codes, names = frame.words("task")
        where = np.array([place.get(name, -1) for name in names] + [-1], dtype=np.int64)[codes]
        values = column(frame)
        good = np.isfinite(values) & ~has_reason(frame)
        if lacking is not None:
            values, good = np.where(good, values, lacking), np.ones(len(values), dtype=bool)
        used = (where >= 0) & good
        sums += np.bincount(where[used], weights=values[used], minlength=len(tasks))
        counts += np.bincount(where[used], minlength=len(tasks))
    with np.errstate(invalid="ignore", divide="ignore"):
        return sums / counts


def named(name: str) -> Column:
    return lambda frame: frame.numbers(name)


def looked_up(frame: Frame) -> np.ndarray | None:
    """bool of (rows,): rollouts that look at where answers could be had from (column `text.answer_source`, or the texts themselves, where
    the frame was made of rows in memory); None where neither is at hand."""
    if frame.has("text.answer_source"):
        return np.nan_to_num(frame.numbers("text.answer_source")) > 0
    try:
        rows = frame.excerpt([frame.number_of(i) for i in range(frame.rows)])
    except UsageError:
        return None
    texts = [(row.get("prompt") or "", row.get("response")) for row in rows]
    if not any(response for _, response in texts):
        return None
    return np.array([at_sight(str(prompt), str(response or "")).answer_source > 0 for prompt, response in texts])


def by_luck(hits: int, n: int, before: int, m: int) -> float:
    """P-value of "hits of n is no more than before of m": Fisher's exact test, one-sided. 1 for an arm without any."""
    if not (n and m and hits):
        return 1.0
    from scipy import stats  # It takes a second to import, and most looks lose no sample.

    return float(stats.hypergeom.sf(hits - 1, n + m, hits + before, n))
