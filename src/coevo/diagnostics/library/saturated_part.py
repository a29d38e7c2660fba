"""Summands of the reward that everyone earns, and that a group's baseline therefore erases."""

import numpy as np

from coevo.diagnostics.casebook import coin, ramp, rows_of
from coevo.diagnostics.course import by_step, groups_of, number, shown
from coevo.diagnostics.signal import late_rows
from coevo.diagnostics.types import Case, Diagnostic, Layer, Level, Levels, Reading
from coevo.evidence.types import Frame

ERASED = 0.8
"""Share of groups without a spread in a part, from which on the part is called saturated."""


def measure(frame: Frame, baseline: Frame | None) -> Reading:
    late = late_rows(frame, mask=np.isfinite(frame.numbers("reward")))
    sizes, erased = {}, {}
    for name in frame.parts:
        values = frame.numbers(f"parts.{name}")
        groups = groups_of(frame, values, late)
        groups = groups.where(groups.n >= 2)
        if len(groups.n):
            sizes[name] = float(np.abs(values[late & np.isfinite(values)]).mean())
            erased[name] = float(groups.dead().mean())
    total = sum(sizes.values())
    if sum(size > 0 for size in sizes.values()) < 2:
        return Reading(0.0, "the reward has a single part" if total else "all parts are 0", int(late.sum()))
    saturated = {name: size / total for name, size in sizes.items() if size > 0 and erased[name] >= ERASED}
    shares = ", ".join(
        f"{name} {number(size / total)} (equal in {number(erased[name])} of groups)" for name, size in sizes.items()
    )
    if not saturated:
        return Reading(0.0, f"shares of the reward: {shares}", int(late.sum()))
    worst = max(saturated, key=lambda name: saturated[name])
    values = frame.numbers(f"parts.{worst}")
    course = by_step(frame, values)
    rows = shown(frame, late & (values != 0))
    return Reading(
        saturated[worst],
        f"part {worst} is the same for all; shares of the reward: {shares}",
        int(late.sum()),
        rows,
        course.series,
    )


def _run(bonus, rest):
    return rows_of(lambda s: {"reward": bonus(s) + rest(s), "parts": {"bonus": bonus(s), "tests": rest(s)}})


DIAGNOSTIC = Diagnostic(
    id="saturated-part",
    title="A saturated part of the reward",
    layer=Layer.SCORE,
    formula="largest share (mean |part| / sum of mean |parts|, last third) of a part that has no spread in at least 80 % of groups; 0 if there is none, or a single part",
    source="EvoTrainer, arXiv 2606.03108: bonuses at 94 to 99 % coverage vanish under group whitening; a component over 80 % of the reward: rllm#143, SWE-smith#24",
    needs=("parts", "reward", "group|task"),
    levels=Levels(0.6, 0.85),
    measure=measure,
    means="Most of the reward is a constant: it moves the curve and, since a baseline removes it, teaches nothing.",
    advice="Remove or lower that part; look whether the policy gave up the task for it.",
    cases=(
        Case("all is bonus", _run(lambda s: 0.5, lambda s: 0.01 * coin(s, 0.1)), Level.CRITICAL),
        Case("a bonus for all", _run(lambda s: 0.5, lambda s: 0.4 * coin(s, 0.4)), Level.WARN),
        Case("a small bonus", _run(lambda s: 0.1, lambda s: coin(s, 0.4)), Level.OK),
        Case("a large part that differs", rows_of(lambda s: _half(s)), Level.OK),
    ),
)


def _half(s):
    bonus, rest = coin(s, 0.5), 0.1 * coin(s, ramp(s, 0.2, 0.6))
    return {"reward": bonus + rest, "parts": {"bonus": bonus, "tests": rest}}
