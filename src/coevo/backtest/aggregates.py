"""The functions of the grammar that make one value of many, for all groups at once.

Each takes its values, their labels (int64, 0 to `size` - 1, same shape), and `size`, and gives float64 of (size,): NaN where the values do not say.
Values that are NaN say nothing and are left out; functions of two leave out pairs of which either is NaN.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

FLAT = 1e-12
"""Variance, relative to the mean square, under which values count as constant: below it a correlation would be one of rounding errors."""


def mean(values: np.ndarray, labels: np.ndarray, size: int) -> np.ndarray:
    values, labels = _known(values, labels)
    counts = np.bincount(labels, minlength=size)
    return np.bincount(labels, weights=values, minlength=size) / np.where(counts, counts, np.nan)


def sd(values: np.ndarray, labels: np.ndarray, size: int) -> np.ndarray:
    """With n - 1; exactly 0 for equal values."""
    values, labels = _known(values, labels)
    counts = np.bincount(labels, minlength=size)
    squares = np.bincount(labels, weights=(values - mean(values, labels, size)[labels]) ** 2, minlength=size)
    found = np.sqrt(squares / np.where(counts > 1, counts - 1, np.nan))
    return np.where(spread(values, labels, size) == 0, found * 0.0, found)


def share(values: np.ndarray, labels: np.ndarray, size: int) -> np.ndarray:
    return mean(np.where(np.isnan(values), np.nan, values != 0), labels, size)


def quantile(values: np.ndarray, labels: np.ndarray, size: int, q: float) -> np.ndarray:
    """Linear between order statistics (Hyndman and Fan 1996, type 7)."""
    ordered, starts, counts = _ordered(values, labels, size)
    if not len(ordered):
        return np.full(size, np.nan)
    place = starts + q * np.maximum(counts - 1, 0)
    low = np.floor(place).astype(np.int64)
    last = np.maximum(starts + counts - 1, 0)
    below = ordered[np.minimum(low, last)]
    above = ordered[np.minimum(low + 1, last)]
    return np.where(counts > 0, below + (above - below) * (place - low), np.nan)


def median(values: np.ndarray, labels: np.ndarray, size: int) -> np.ndarray:
    return quantile(values, labels, size, 0.5)


def least(values: np.ndarray, labels: np.ndarray, size: int) -> np.ndarray:
    return quantile(values, labels, size, 0.0)


def most(values: np.ndarray, labels: np.ndarray, size: int) -> np.ndarray:
    return quantile(values, labels, size, 1.0)


def spread(values: np.ndarray, labels: np.ndarray, size: int) -> np.ndarray:
    return most(values, labels, size) - least(values, labels, size)


def distinct(values: np.ndarray, labels: np.ndarray, size: int) -> np.ndarray:
    """Different values over all values."""
    ordered, _, counts = _ordered(values, labels, size)
    owner = np.repeat(np.arange(size), counts)
    first = np.ones(len(ordered), dtype=bool)
    first[1:] = (ordered[1:] != ordered[:-1]) | (owner[1:] != owner[:-1])
    return np.bincount(owner[first], minlength=size) / np.where(counts, counts, np.nan)


def ratio(a: np.ndarray, b: np.ndarray, labels: np.ndarray, size: int) -> np.ndarray:
    a, b, labels = _pairs(a, b, labels)
    over, under = mean(a, labels, size), mean(b, labels, size)
    return over / np.where(under == 0, np.nan, under)


def corr(a: np.ndarray, b: np.ndarray, labels: np.ndarray, size: int) -> np.ndarray:
    a, b, labels = _pairs(a, b, labels)
    x, y = a - mean(a, labels, size)[labels], b - mean(b, labels, size)[labels]

    def total(values: np.ndarray) -> np.ndarray:
        return np.bincount(labels, weights=values, minlength=size)

    xx, yy = total(x * x), total(y * y)
    told = (xx > FLAT * total(a * a)) & (yy > FLAT * total(b * b))
    return np.clip(total(x * y) / np.sqrt(np.where(told, xx * yy, np.nan)), -1.0, 1.0)


def rank_corr(a: np.ndarray, b: np.ndarray, labels: np.ndarray, size: int) -> np.ndarray:
    a, b, labels = _pairs(a, b, labels)
    return corr(ranks(a, labels), ranks(b, labels), labels, size)


def ranks(values: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Rank of each value among those of its label, from 0; equal values share the mean of theirs. No NaN."""
    if not len(values):
        return values
    order = np.lexsort((values, labels))
    v, lab = values[order], labels[order]
    new = np.ones(len(v), dtype=bool)
    new[1:] = (v[1:] != v[:-1]) | (lab[1:] != lab[:-1])
    start = np.flatnonzero(new)
    length = np.diff(np.append(start, len(v)))
    owner_start = np.searchsorted(lab, lab[start])  # where the label of each run begins
    found = np.empty(len(v))
    found[order] = np.repeat(start - owner_start + (length - 1) / 2, length)
    return found


ONE: Mapping[str, Callable[..., np.ndarray]] = {
    "mean": mean,
    "sd": sd,
    "median": median,
    "least": least,
    "most": most,
    "spread": spread,
    "share": share,
    "distinct": distinct,
    "ratio": ratio,
    "corr": corr,
    "rank_corr": rank_corr,
}


def _known(values: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    fine = np.isfinite(values)
    return (values, labels) if fine.all() else (values[fine], labels[fine])


def _pairs(a: np.ndarray, b: np.ndarray, labels: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    fine = np.isfinite(a) & np.isfinite(b)
    return (a, b, labels) if fine.all() else (a[fine], b[fine], labels[fine])


def _ordered(values: np.ndarray, labels: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Values by label and then size, where each label begins, and how many it has."""
    values, labels = _known(values, labels)
    counts = np.bincount(labels, minlength=size)
    order = np.lexsort((values, labels)) if size > 1 else np.argsort(values, kind="stable")
    return values[order], np.cumsum(counts) - counts, counts
