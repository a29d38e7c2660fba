"""Does a number tell bad branches from good ones? AUC, exact permutation tests, and how many branches it takes to know.

AUC is the chance that a bad branch lies on the bad side of a good one (ties count half; Mann and Whitney 1947). Its p-value is the share of all
ways to deal the labels to the values seen that give an AUC at least as high: exact, and never under 1 / C(n, bad).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from coevo.backtest.aggregates import ranks
from coevo.diagnostics.types import Levels
from coevo.streams import array_stream

EXACT = 50_000
"""Labelings up to which all are looked at; beyond, as many are drawn."""


class Separation(NamedTuple):
    """How well values tell `bad` from `good` ones."""

    good: int
    bad: int
    auc: float | None
    """None without a branch on either side."""
    p: float | None
    """One-sided: an AUC as high if labels were dealt at random (of the best of the family, where it was picked from one)."""
    smallest_p: float | None
    """The least that so many branches can give."""
    exact: bool = True


def auc(values: np.ndarray, bad: np.ndarray, *, high_is_bad: bool = True) -> float:
    """Of finite `values` (n,) and bool `bad` (n,), with at least one on either side."""
    total = ranks(values, np.zeros(len(values), dtype=np.int64))[bad].sum()
    k, n = int(bad.sum()), len(values)
    found = (total - k * (k - 1) / 2) / (k * (n - k))
    return float(found if high_is_bad else 1 - found)


def separation(
    values: Sequence[float],
    bad: Sequence[bool],
    *,
    high_is_bad: bool = True,
    seed: int = 0,
    family: Sequence[Sequence[float]] = (),
) -> Separation:
    """Of finite values. `family`: the values that other candidates had on the same branches, where this one was picked as the best of several: p is
    then that of the largest AUC among them, either way up (Westfall and Young 1993), so that picking is paid for."""
    x, marks = np.asarray(values, dtype=float), np.asarray(bad, dtype=bool)
    n, k = len(x), int(marks.sum())
    if not 0 < k < n:
        return Separation(n - k, k, None, None, None)
    seen = auc(x, marks, high_is_bad=high_is_bad)
    rows, exact = _labelings(n, k, seed)
    table = [np.asarray(one, dtype=float) for one in family]
    aucs = _aucs(x, rows)
    best = aucs if high_is_bad else 1 - aucs
    for other in (one for one in table if np.isfinite(one).all()):
        best = np.maximum(best, _both_ways(_aucs(other, rows)))
    if table:
        best = np.maximum(best, _both_ways(aucs))
    hits = int((best >= seen - 1e-9).sum())
    p = hits / len(rows) if exact else (hits + 1) / (len(rows) + 1)
    return Separation(n - k, k, seen, p, 1 / math.comb(n, k), exact)


def least_branches(alpha: float) -> int:
    """Branches on each side with which a perfect separation has p of at most `alpha`: 3 for 0.05."""
    n = 1
    while 1 / math.comb(2 * n, n) > alpha:
        n += 1
    return n


def fit_levels(values: Sequence[float], bad: Sequence[bool], *, high_is_bad: bool = True) -> Levels:
    """Levels from data: `warn` halfway between the neighbouring values where most branches fall on their side (each side weighs the same; the most central of
    equals), `critical` at the median of the bad values beyond it. Needs a branch on either side."""
    sign = 1.0 if high_is_bad else -1.0
    x, marks = sign * np.asarray(values, dtype=float), np.asarray(bad, dtype=bool)
    ordered = np.unique(x)
    if len(ordered) == 1:
        return Levels(sign * ordered[0], sign * ordered[0])
    cuts = (ordered[1:] + ordered[:-1]) / 2
    beyond = x[None, :] >= cuts[:, None]
    quality = beyond[:, marks].mean(axis=1) + (~beyond[:, ~marks]).mean(axis=1)
    gaps = ordered[1:] - ordered[:-1]
    cut = float(cuts[max(range(len(cuts)), key=lambda i: (round(float(quality[i]), 12), gaps[i], -i))])
    sick = x[marks & (x >= cut)]
    critical = float(np.median(sick)) if len(sick) else float(ordered[-1])
    return Levels(sign * cut, sign * max(critical, cut))


def accuracy(values: Sequence[float], bad: Sequence[bool], levels: Levels) -> float:
    """Balanced: mean of the share of bad branches that `warn` is reached on and the share of good ones that it is not."""
    spoken = np.array([_speaks(value, levels) for value in values])
    marks = np.asarray(bad, dtype=bool)
    return float((spoken[marks].mean() + (~spoken[~marks]).mean()) / 2)


def left_out_accuracy(values: Sequence[float], bad: Sequence[bool], *, high_is_bad: bool = True) -> float | None:
    """Balanced accuracy of levels fitted without the branch they judge (leave-one-out); None with fewer than two on either side."""
    marks = np.asarray(bad, dtype=bool)
    if marks.sum() < 2 or (~marks).sum() < 2:
        return None
    right = []
    for i in range(len(marks)):
        rest = [j for j in range(len(marks)) if j != i]
        levels = fit_levels([values[j] for j in rest], marks[rest].tolist(), high_is_bad=high_is_bad)
        right.append(_speaks(values[i], levels) == marks[i])
    hits = np.array(right)
    return float((hits[marks].mean() + hits[~marks].mean()) / 2)


def rank_correlation(a: Sequence[float], b: Sequence[float]) -> float | None:
    """Spearman's; None for fewer than three pairs or where one side is constant."""
    x, y = np.asarray(a, dtype=float), np.asarray(b, dtype=float)
    fine = np.isfinite(x) & np.isfinite(y)
    if fine.sum() < 3:
        return None
    zeros = np.zeros(int(fine.sum()), dtype=np.int64)
    u, v = ranks(x[fine], zeros), ranks(y[fine], zeros)
    if np.ptp(u) == 0 or np.ptp(v) == 0:
        return None
    return float(np.clip(np.corrcoef(u, v)[0, 1], -1, 1))


def _speaks(value: float, levels: Levels) -> bool:
    return levels.of(value) in ("warn", "critical")


def _labelings(n: int, k: int, seed: int) -> tuple[np.ndarray, bool]:
    """(labelings, n), bool with k of each row: all of them, or `EXACT` random ones."""
    if math.comb(n, k) <= EXACT:
        places = np.array(list(combinations(range(n), k)))
        rows = np.zeros((len(places), n), dtype=bool)
        np.put_along_axis(rows, places, True, axis=1)
        return rows, True
    rng = array_stream(seed, "labelings", n, k)
    return np.argsort(rng.random((EXACT, n)), axis=1) < k, False


def _aucs(values: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Of every labeling, with high as bad."""
    n, k = rows.shape[1], int(rows[0].sum())
    sums = rows @ ranks(values, np.zeros(n, dtype=np.int64))
    return (sums - k * (k - 1) / 2) / (k * (n - k))


def _both_ways(aucs: np.ndarray) -> np.ndarray:
    return np.maximum(aucs, 1 - aucs)
