"""Whether rewards within a group become alike."""

import numpy as np

from coevo.diagnostics.casebook import coin, ramp, rows_of
from coevo.diagnostics.course import change, course_of, groups_of, number, usable
from coevo.diagnostics.signal import late_groups, rows_in
from coevo.diagnostics.types import Case, Diagnostic, Layer, Level, Levels, Reading
from coevo.evidence.types import Frame


def measure(frame: Frame, baseline: Frame | None) -> Reading:
    rewards = frame.numbers("reward")
    known = usable(frame, "reward")
    groups = groups_of(frame, rewards, known)
    groups = groups.where(groups.n >= 2)
    if not len(groups.n):
        return Reading(None, "no group has two measured rewards")
    top = float(groups.high.max())
    scale = top - float(groups.low.min())
    unsolved = groups.where(groups.low < top - 1e-6 * max(1.0, abs(top)))
    course = course_of(unsolved.step, unsolved.spread)
    found = change(course)
    if found is None:
        return Reading(None, f"{len(course.steps)} steps with groups that are not solved by all; it takes more")
    if not found.early:
        return Reading(None, "there was no spread from the start (dead groups say so)")
    note = (
        f"mean spread (max - min) of groups {number(found.early)} -> {number(found.late)}, of a range of {number(scale)};"
        f" {len(groups.n) - len(unsolved.n)} groups solved by all are left out"
    )
    ratio = found.late / found.early if found.fell else max(1.0, found.late / found.early)
    late = late_groups(unsolved)
    narrow = late.where(late.spread <= np.quantile(late.spread, 0.2))
    return Reading(ratio, note, len(unsolved.n), rows_in(frame, narrow) if ratio < 0.5 else (), course.series)


DIAGNOSTIC = Diagnostic(
    id="reward-spread",
    title="Spread of rewards within groups",
    layer=Layer.SIGNAL,
    formula="mean of (max - min) of a group's rewards, last third over first third of the steps, over groups that not all rollouts solve; 1 or more where it did not surely fall",
    source="RAGEN, arXiv 2504.20073: the in-group deviation falls before the gradient spikes and success drops",
    needs=("reward", "group|task", "step"),
    levels=Levels(0.5, 0.2),
    measure=measure,
    means="Rollouts of one group earn ever more alike although the tasks are not solved: the policy stopped trying different things.",
    advice="Keep uncertain groups (filter), raise temperature or entropy, lower the learning rate; look for one reply that is given to everything.",
    cases=(
        Case(
            "dies out",
            rows_of(lambda s: {"reward": 0.5 + 0.5 * ramp(s, 1, 0.0) * float(s.rng.uniform(-1, 1))}, steps=60),
            Level.CRITICAL,
        ),
        Case(
            "halves",
            rows_of(lambda s: {"reward": 0.5 + 0.5 * ramp(s, 1, 0.15) * float(s.rng.uniform(-1, 1))}, steps=60),
            Level.WARN,
        ),
        Case("solved", rows_of(lambda s: {"reward": coin(s, ramp(s, 0.3, 1.0))}, steps=60), Level.OK),
        Case("stays", rows_of(lambda s: {"reward": float(s.rng.uniform())}), Level.OK),
    ),
)
