"""What the diagnostics of behaviour share: lengths, shares and drifts."""

from __future__ import annotations

import math

import numpy as np

from coevo.diagnostics.course import MIN_STEPS, by_step, change, groups_of, number, shown, unknown, worst
from coevo.diagnostics.signal import late_rows, level_values
from coevo.diagnostics.types import Reading
from coevo.evidence.types import Frame

ENOUGH = 20
"""Rollouts under which a share says nothing."""


def length_of(frame: Frame) -> tuple[str, np.ndarray]:
    """Tokens where most rows have them, else characters: (what is counted, float64 of (rows,))."""
    tokens = frame.numbers("tokens")
    if 2 * np.isfinite(tokens).sum() >= frame.rows or not frame.has("text.chars"):
        return "tokens", tokens
    return "characters", frame.numbers("text.chars")


def share(frame: Frame, values: np.ndarray, what: str) -> Reading:
    """The mean of `values`, 0 to 1 each, over the late rows; `what` says of what, as "are cut off"."""
    known = np.isfinite(values)
    now = known & late_rows(frame)
    n = int(now.sum())
    if n < ENOUGH:
        return unknown(f"{n} rollouts tell; it takes {ENOUGH}", n)
    value = float(values[now].mean())
    course = by_step(frame, values, known)
    note = f"{value:.1%} of {n:,} late rollouts {what}"
    if (found := change(course)) is not None:
        note += f"; early {found.early:.1%}"
    return Reading(value, note, n, shown(frame, now & (values > 0)), course.series)


def drift(frame: Frame, values: np.ndarray, what: str, *, down: bool = False) -> Reading:
    """late / early of the mean of `values` (with `down`, early / late is what is bad and the ratio is left as it is). 1 where the change is
    within chance."""
    known = np.isfinite(values)
    course = by_step(frame, values, known)
    found = change(course)
    if found is None:
        return Reading(
            None, f"{len(course.steps)} steps with {what}; it takes {MIN_STEPS}", course.n, (), course.series
        )
    if found.early <= 0 or found.late < 0:
        return Reading(None, f"early {what} are {number(found.early)}: no ratio", course.n, (), course.series)
    note = f"{what} {number(found.early)} -> {number(found.late)} (first and last {found.steps} steps)"
    if not found.rose and not found.fell:
        return Reading(1.0, f"{note}: within chance", course.n, (), course.series)
    badness = -values if down else values
    return Reading(found.ratio, note, course.n, worst(frame, badness, known & late_rows(frame)), course.series)


def success_rose(frame: Frame) -> tuple[bool, str]:
    """Whether truth (reward, where truth is not known) rose beyond chance, and the numbers."""
    name, values = level_values(frame)
    found = change(by_step(frame, values, np.isfinite(values)))
    if found is None:
        return False, ""
    return found.rose, f"{name} {number(found.early)} -> {number(found.late)}"


def failed_to_passed(frame: Frame, values: np.ndarray) -> tuple[float, int, np.ndarray]:
    """Mean ratio of `values` of failed to passed rollouts in the same group (geometric, over groups that have both), how many such groups there are,
    and which rows failed. A rollout passed if it is right (`meaning_ok`, where that tells some from others; else truth, else reward, over the middle of its group's)."""
    passed = _passed(frame)
    fine = np.isfinite(values) & (values > 0) & np.isfinite(passed) & late_rows(frame)
    logs = np.log(np.where(fine, values, 1.0))
    good, bad = fine & (passed > 0.5), fine & (passed <= 0.5)
    ids = frame.groups
    size = int(ids.max(initial=-1)) + 1
    counts = [np.bincount(ids[mask], minlength=size) for mask in (bad, good)]
    sums = [np.bincount(ids[mask], weights=logs[mask], minlength=size) for mask in (bad, good)]
    both = (counts[0] > 0) & (counts[1] > 0)
    if not both.any():
        return math.nan, 0, bad
    ratios = sums[0][both] / counts[0][both] - sums[1][both] / counts[1][both]
    return float(np.exp(ratios.mean())), int(both.sum()), bad


def _passed(frame: Frame) -> np.ndarray:
    right = frame.numbers("meaning_ok")
    known = right[np.isfinite(right)]
    if 2 * len(known) > frame.rows and 0.01 < known.mean() < 0.99:
        return right
    _, values = level_values(frame)
    known = np.isfinite(values)
    groups = groups_of(frame, values, known)
    middle = np.full(int(frame.groups.max(initial=-1)) + 1, np.nan)
    middle[groups.ids] = np.where(groups.spread > 1e-9, (groups.low + groups.high) / 2, np.nan)
    bound = middle[frame.groups]
    return np.where(known & np.isfinite(bound), (values > bound).astype(float), np.nan)
