"""What the diagnostics of score and signal share: late rows and groups, and rises that should go together."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from coevo.diagnostics.course import (
    SHOWN,
    Change,
    Course,
    Groups,
    by_step,
    change,
    course_of,
    groups_of,
    number,
    unknown,
    usable,
    within,
)
from coevo.diagnostics.types import Reading
from coevo.evidence.types import Frame

SAMPLED = 300
"""Rows of known truth that speak for the others, if they were picked whatever they earned."""


def late_rows(frame: Frame, share: float = 1 / 3, mask: np.ndarray | None = None) -> np.ndarray:
    """bool of (rows,): rows of the last `share` of the steps (of those that `mask` has); all rows where there are no steps."""
    steps = frame.numbers("step")
    if mask is None:
        mask = np.ones(frame.rows, dtype=bool)
    known = np.isfinite(steps) & mask
    return mask & (steps >= _from(steps[known], share)) if known.any() else mask


def late_groups(groups: Groups, share: float = 1 / 3) -> Groups:
    """Groups of the last `share` of the steps; all where there are no steps."""
    known = np.isfinite(groups.step)
    return groups.where(groups.step >= _from(groups.step[known], share)) if known.any() else groups


def _from(steps: np.ndarray, share: float) -> float:
    different = np.unique(steps)
    return float(different[-max(1, math.ceil(len(different) * share))])


def rows_in(frame: Frame, groups: Groups, most: int = SHOWN) -> tuple[int, ...]:
    """A source row of each of the last groups."""
    return tuple(frame.number_of(int(row)) for row in groups.first[::-1][:most])


class Rises(NamedTuple):
    """How two columns changed over a run, each in standard deviations of its own within groups."""

    lead: Change
    follow: Change
    share: float
    """What follows of the rise: (rise of follow) / (rise of lead), at the upper end of what is likely (95 %, one-sided 2.5 %)."""
    course: Course
    """Of the difference, in those units."""


def rises(frame: Frame, lead: np.ndarray, follow: np.ndarray) -> Rises | None:
    """Both changes over the rows that have both values; None with too few steps, or without any spread in one of them."""
    both = np.isfinite(lead) & np.isfinite(follow)
    scales = [_scale(frame, values, both) for values in (lead, follow)]
    if not all(scales):
        return None
    units = [values / scale for values, scale in zip((lead, follow), scales, strict=True)]
    courses = [by_step(frame, values, both) for values in units]
    first, second = (change(course) for course in courses)
    if first is None or second is None:
        return None
    share = second.high / first.difference if first.difference > 0 else math.nan
    a, b = courses
    return Rises(first, second, share, Course(a.steps, (a.means - a.means[0]) - (b.means - b.means[0]), a.counts))


def _scale(frame: Frame, values: np.ndarray, mask: np.ndarray) -> float:
    """Standard deviation within groups, lest the difficulty of tasks be taken for spread; where groups have none, of all."""
    inside = within(frame, values, mask)[mask]
    if len(inside) and (found := float(inside.std())) > 1e-9:
        return found
    return float(values[mask].std()) if mask.any() and values[mask].std() > 1e-9 else 0.0


def lost_rows(frame: Frame) -> np.ndarray:
    """bool of (rows,): rows that name a reason for having no measurement."""
    codes, values = frame.words("unmeasured_reason")
    return (codes >= 0) & (codes != (values.index("") if "" in values else -1))


def level_values(frame: Frame) -> tuple[str, np.ndarray]:
    """What tells best how well the policy does: the truth (see `true_values`) if it is known for at least half of the measured rows, or for
    `SAMPLED` that were picked without regard to the reward; else the reward."""
    rewards, (name, truth) = frame.numbers("reward"), true_values(frame)
    known, measured = np.isfinite(truth), np.isfinite(rewards)
    enough = known.any() and 2 * known.sum() >= measured.sum()
    return (name, truth) if enough or _sampled(rewards, measured & known, measured & ~known) else ("reward", rewards)


def _sampled(rewards: np.ndarray, known: np.ndarray, others: np.ndarray) -> bool:
    """Whether the rows of known truth speak for the others: many, and with rewards like theirs (a truth that is looked up for what passed
    rises with the reward, whatever the policy does)."""
    if known.sum() < SAMPLED or not others.any():
        return False
    sd = float(rewards[known | others].std())
    apart = abs(float(rewards[known].mean()) - float(rewards[others].mean()))
    return apart <= 0.1 * sd + 2 * sd * math.sqrt(1 / known.sum() + 1 / others.sum())


def true_values(frame: Frame) -> tuple[str, np.ndarray]:
    """The truth; where rollouts start from a program of known fitness, what a search that keeps the better one truly gains: max(0, truth - parent).
    A policy that hands every parent back breaks nothing, so its truth is high and its gain 0."""
    truth, parent = frame.numbers("truth"), frame.numbers("parent_fitness")
    gain = np.maximum(0.0, truth - parent)
    known = int(np.isfinite(truth).sum())
    return ("true gain", gain) if known and int(np.isfinite(gain).sum()) >= known / 2 else ("truth", truth)


def ends(frame: Frame, *, top: bool) -> Reading:
    """Share of late groups that are dead at the top (or at the bottom) of what there is to earn."""
    rewards = frame.numbers("reward")
    groups = groups_of(frame, rewards, usable(frame, "reward"))
    groups = groups.where(groups.n >= 2)
    if not len(groups.n):
        return unknown("no group has two measured rewards")
    high, low = float(groups.high.max()), float(groups.low.min())
    right = groups_of(frame, frame.numbers("meaning_ok"))
    flat = high - low <= 1e-6 * max(1.0, abs(high))
    if frame.has("meaning_ok") and not (flat and not top):
        rate = np.full(int(frame.groups.max()) + 1, np.nan)
        rate[right.ids] = right.mean
        there = groups.dead() & (rate[groups.ids] == 1.0 if top else (rate[groups.ids] == 0.0) & _at(groups, low))
        where = "with every rollout right" if top else "with every rollout wrong, at the lowest reward"
    elif flat:
        return unknown("all rewards are equal, so their top and bottom cannot be told apart", int(groups.n.sum()))
    else:
        there = groups.dead() & _at(groups, high if top else low)
        where = f"at the {'highest' if top else 'lowest'} reward, {number(high if top else low)}"
    course = course_of(groups.step, there.astype(float))
    late = late_groups(groups)
    mine = np.isin(late.ids, groups.ids[there])
    note = f"{int(mine.sum())} of the last {len(late.n)} groups are dead {where}; {there.mean():.0%} over all"
    return Reading(float(mine.mean()), note, len(late.n), rows_in(frame, late.where(mine)), course.series)


def _at(groups: Groups, level: float) -> np.ndarray:
    return np.abs(groups.mean - level) <= 1e-6 * max(1.0, abs(level))


def uncertainty(frame: Frame) -> tuple[str, np.ndarray]:
    """Entropy per token: as recorded, or estimated by the negative log-probability of what was sampled (its expectation at temperature 1)."""
    if frame.has("entropy_mean"):
        return "entropy", frame.numbers("entropy_mean")
    return "-log p of the sampled tokens", -frame.numbers("logprob_mean")
