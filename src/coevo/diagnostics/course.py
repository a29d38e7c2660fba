"""What diagnostics share: the course of a column over steps, windows of it, groups, and the rows that show a thing best.

Everything works on a frame's columns at once. Values that are NaN are left out of every mean and counted nowhere; a mask leaves out more.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from coevo.diagnostics import student
from coevo.diagnostics.types import Reading
from coevo.evidence.types import Frame

POINTS = 100
"""Points of a series at most."""
SHOWN = 5
"""Rows shown at most."""
MIN_STEPS = 6
"""Steps that a comparison of early and late takes: two in each third."""


class Course(NamedTuple):
    """A column's mean at each step that has a value, in order of steps. All arrays are (steps,)."""

    steps: np.ndarray
    means: np.ndarray
    counts: np.ndarray
    """Values behind each mean."""

    @property
    def n(self) -> int:
        return int(self.counts.sum())

    @property
    def mean(self) -> float:
        """Over all values; NaN for none."""
        return float((self.means * self.counts).sum() / self.counts.sum()) if len(self.steps) else math.nan

    @property
    def noise(self) -> float:
        """Standard deviation of one step's mean, from the differences of neighbouring steps, which a trend hardly inflates
        (von Neumann 1941, Annals of Mathematical Statistics 12(4)). NaN with fewer than two steps."""
        return math.sqrt(float(np.mean(np.diff(self.means) ** 2)) / 2) if len(self.steps) > 1 else math.nan

    @property
    def series(self) -> tuple[tuple[float, float], ...]:
        return thinned(self.steps, self.means)


class Change(NamedTuple):
    """Early against late: means over the steps of the first and of the last third."""

    early: float
    late: float
    se: float
    """Standard error of the difference."""
    low: float
    high: float
    """95 % interval of the difference (Student's t)."""
    steps: int
    """In each window."""

    @property
    def difference(self) -> float:
        return self.late - self.early

    @property
    def ratio(self) -> float:
        """late / early; NaN where early is 0."""
        return self.late / self.early if self.early else math.nan

    @property
    def rose(self) -> bool:
        """By more than chance (one-sided 2.5 %)."""
        return self.low > 0

    @property
    def fell(self) -> bool:
        return self.high < 0


class Groups(NamedTuple):
    """Groups that have a value, one entry each. All arrays are (groups,)."""

    ids: np.ndarray
    """As `Frame.groups` numbers them."""
    n: np.ndarray
    low: np.ndarray
    high: np.ndarray
    mean: np.ndarray
    step: np.ndarray
    """NaN where the rows have none."""
    first: np.ndarray
    """A row of the frame (not of the source) in each group."""

    @property
    def spread(self) -> np.ndarray:
        """Highest less lowest. Exactly 0 for equal values, as no standard deviation is."""
        return self.high - self.low

    def dead(self, least: int = 2) -> np.ndarray:
        """bool of (groups,): groups of at least `least` values without a spread (at most 1e-6, relative above 1): nothing to learn from."""
        scale = np.maximum(1.0, np.maximum(np.abs(self.low), np.abs(self.high)))
        return (self.n >= least) & (self.spread <= 1e-6 * scale)

    def where(self, mask: np.ndarray) -> Groups:
        return Groups(*(column[mask] for column in self))


def unknown(why: str, n: int = 0) -> Reading:
    """A reading that says nothing, and why."""
    return Reading(None, why, n)


def usable(frame: Frame, name: str) -> np.ndarray:
    """bool of (rows,): rows with a number in column `name` that were measured (where the column is known only for measured rows, all of them)."""
    return np.isfinite(frame.numbers(name)) & frame.measured


def by_step(frame: Frame, values: np.ndarray, mask: np.ndarray | None = None) -> Course:
    """The course of `values`, (rows,), over the frame's steps; rows without a step are left out."""
    return course_of(frame.numbers("step"), values, mask)


def course_of(steps: np.ndarray, values: np.ndarray, mask: np.ndarray | None = None) -> Course:
    """Mean of `values` at each of `steps`, both (rows,)."""
    fine = np.isfinite(steps) & np.isfinite(values)
    if mask is not None:
        fine &= mask
    return _means(steps[fine], values[fine])


def _means(steps: np.ndarray, values: np.ndarray) -> Course:
    """Of finite values. Steps that are dense integers are counted without sorting them."""
    if not len(steps):
        nothing = np.empty(0)
        return Course(nothing, nothing, nothing)
    low, high = steps.min(), steps.max()
    if high - low <= 4 * len(steps) + 1000 and (steps == np.floor(steps)).all():
        places, names = (steps - low).astype(np.int64), None
    else:
        names, places = np.unique(steps, return_inverse=True)
    counts = np.bincount(places).astype(float)
    sums = np.bincount(places, weights=values)
    there = counts > 0
    known = np.flatnonzero(there) + low if names is None else names[there]
    return Course(known.astype(float), sums[there] / counts[there], counts[there])


def change(course: Course, share: float = 1 / 3) -> Change | None:
    """First against last `share` of the steps; None with fewer than `MIN_STEPS`. Every step weighs the same."""
    if len(course.steps) < MIN_STEPS:
        return None
    k = max(2, int(len(course.steps) * share))
    early, late = float(course.means[:k].mean()), float(course.means[-k:].mean())
    se = course.noise * math.sqrt(2 / k)
    reach = se * quantile_t(len(course.steps) - 1)
    difference = late - early
    return Change(early, late, se, difference - reach, difference + reach, k)


def slope(course: Course) -> tuple[float, float]:
    """Least-squares slope of the means per step, weighted by counts, and its standard error; NaN with fewer than three steps."""
    if len(course.steps) < 3:
        return math.nan, math.nan
    x, y, w = course.steps, course.means, course.counts
    x = x - np.average(x, weights=w)
    y = y - np.average(y, weights=w)
    size = float((w * x * x).sum())
    found = float((w * x * y).sum()) / size
    residual = float((w * (y - found * x) ** 2).sum()) / (len(x) - 2)
    return found, math.sqrt(residual / size)


def quantile_t(degrees: float, level: float = 0.975) -> float:
    """Quantile of Student's t."""
    return student.quantile(max(1.0, degrees), level)


def smoothed(course: Course, width: int) -> Course:
    """Means over `width` steps in a row (not overlapping): what one step's noise hides. The rest at the end joins the last."""
    k = len(course.steps) // max(1, width)
    if width <= 1 or k < 2:
        return course
    starts = np.arange(k) * width
    counts = np.add.reduceat(course.counts, starts)
    means = np.add.reduceat(course.means * course.counts, starts) / counts
    return Course(course.steps[starts], means, counts)


def thinned(steps: np.ndarray, values: np.ndarray, most: int = POINTS) -> tuple[tuple[float, float], ...]:
    """Points (step, value), evenly taken with both ends kept, at most `most`."""
    fine = np.flatnonzero(np.isfinite(steps) & np.isfinite(values))
    if len(fine) > most:
        fine = fine[np.unique(np.linspace(0, len(fine) - 1, most).round().astype(int))]
    return tuple((float(steps[i]), float(values[i])) for i in fine)


def worst(frame: Frame, badness: np.ndarray, mask: np.ndarray | None = None, most: int = SHOWN) -> tuple[int, ...]:
    """Source row numbers of the rows with the highest `badness`, (rows,), the latest first among equals."""
    fine = np.isfinite(badness) if mask is None else np.isfinite(badness) & mask
    places = np.flatnonzero(fine)
    if len(places) > most:
        cut = np.partition(badness[places], len(places) - most)[len(places) - most]
        above, equal = places[badness[places] > cut], places[badness[places] == cut]
        places = np.concatenate([above, equal[len(equal) - (most - len(above)) :]])
    order = sorted(places.tolist(), key=lambda i: (-badness[i], -i))
    return tuple(frame.number_of(i) for i in order)


def shown(frame: Frame, mask: np.ndarray, most: int = SHOWN) -> tuple[int, ...]:
    """Source row numbers of the last rows for which `mask` holds."""
    return worst(frame, np.where(mask, 0.0, np.nan), most=most)


def groups_of(frame: Frame, values: np.ndarray, mask: np.ndarray | None = None) -> Groups:
    """Count, extremes and mean of `values`, (rows,), in each group that has one."""
    fine = np.isfinite(values) if mask is None else np.isfinite(values) & mask
    rows = np.flatnonzero(fine)
    ids = frame.groups[rows]
    size = int(ids.max()) + 1 if len(ids) else 0
    some = values[rows]
    n = np.bincount(ids, minlength=size)
    low, high = np.full(size, np.inf), np.full(size, -np.inf)
    np.minimum.at(low, ids, some)
    np.maximum.at(high, ids, some)
    first = np.zeros(size, dtype=np.int64)
    first[ids[::-1]] = rows[::-1]
    there = np.flatnonzero(n)
    sums = np.bincount(ids, weights=some, minlength=size)
    return Groups(
        ids=there,
        n=n[there],
        low=low[there],
        high=high[there],
        mean=sums[there] / n[there],
        step=frame.numbers("step")[first[there]],
        first=first[there],
    )


def within(frame: Frame, values: np.ndarray, mask: np.ndarray | None = None) -> np.ndarray:
    """`values` less their group's mean, (rows,); NaN where there is no value. What tasks of different difficulty would confound is gone."""
    fine = np.isfinite(values) if mask is None else np.isfinite(values) & mask
    ids = frame.groups
    sums = np.bincount(ids[fine], weights=values[fine], minlength=int(ids.max(initial=-1)) + 1)
    counts = np.bincount(ids[fine], minlength=len(sums))
    means = sums / np.maximum(counts, 1)
    return np.where(fine, values - means[ids], np.nan)


def number(value: float) -> str:
    """As notes show it: three digits, no more zeros than needed."""
    return f"{value:.3g}" if math.isfinite(value) else "?"
