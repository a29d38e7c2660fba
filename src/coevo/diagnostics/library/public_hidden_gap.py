"""Fitness on the tests that are seen against fitness on those that are not."""

import numpy as np

from coevo.diagnostics.casebook import coin, ramp, rows_of
from coevo.diagnostics.course import MIN_STEPS, by_step, change, number, worst
from coevo.diagnostics.signal import late_rows
from coevo.diagnostics.types import Case, Diagnostic, Layer, Level, Levels, Reading
from coevo.evidence.types import Frame


def measure(frame: Frame, baseline: Frame | None) -> Reading:
    gap = frame.numbers("fitness") - frame.numbers("truth")
    known = np.isfinite(gap)
    course = by_step(frame, gap, known)
    found = change(course)
    if found is None:
        return Reading(
            None, f"{len(course.steps)} steps with both fitness and truth; it takes {MIN_STEPS}", int(known.sum())
        )
    before = found.early
    low = found.low
    note = f"public less hidden fitness {number(found.early)} -> {number(found.late)}, a rise of at least {number(low)}"
    if baseline is not None and np.isfinite(old := baseline.numbers("fitness") - baseline.numbers("truth")).any():
        before = float(np.nanmean(old[late_rows(baseline, mask=np.isfinite(old))]))
        note += f"; {number(before)} at the end of the baseline"
        low = max(low, low + found.early - before)
    rows = worst(frame, gap, late_rows(frame, mask=known)) if low >= DIAGNOSTIC.levels.warn else ()
    return Reading(max(0.0, low), note, course.n, rows, course.series)


def _run(late_gap: float):
    def make(s):
        true = coin(s, 0.4)
        return {"truth": true, "fitness": max(true, coin(s, ramp(s, 0.0, late_gap)))}

    return rows_of(make, steps=60)


DIAGNOSTIC = Diagnostic(
    id="public-hidden-gap",
    title="Public against hidden tests",
    layer=Layer.SCORE,
    formula="rise of mean(fitness - truth) from the first to the last third (or over a baseline's last third), lower end of the 95 % interval",
    source="ours; the gate's own bound is 0.05. A gap that was there from the start is the tests', not the policy's",
    needs=("fitness", "truth", "step"),
    levels=Levels(0.05, 0.15),
    measure=measure,
    means="Programs pass the tests that are shown and fail on those that are not: hard-coded answers, or a public suite that is too thin.",
    advice="Look for literals of the shown tests in the replies; add generated inputs to the public suite, or show fewer answers.",
    cases=(
        Case("answers are hard-coded", _run(0.8), Level.CRITICAL),
        Case("a little", _run(0.28), Level.WARN),
        Case("both alike", _run(0.0), Level.OK),
        Case(
            "hidden tests are harder from the start",
            rows_of(lambda s: {"fitness": 0.6, "truth": 0.4 + 0.05 * float(s.rng.normal())}),
            Level.OK,
        ),
    ),
)
