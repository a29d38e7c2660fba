"""How far below its best a run has ended."""

import numpy as np

from coevo.diagnostics.casebook import coin, ramp, rows_of
from coevo.diagnostics.course import by_step, number, smoothed
from coevo.diagnostics.signal import level_values
from coevo.diagnostics.types import Case, Diagnostic, Layer, Level, Levels, Reading
from coevo.evidence.types import Frame

WINDOWS = 15
FEWEST = 10
"""Steps."""


def measure(frame: Frame, baseline: Frame | None) -> Reading:
    name, values = level_values(frame)
    known = np.isfinite(values)
    course = by_step(frame, values, known)
    if len(course.steps) < FEWEST:
        return Reading(None, f"{len(course.steps)} steps with {name}; it takes {FEWEST}", course.n)
    width = max(1, len(course.steps) // WINDOWS)
    windows = smoothed(course, width)
    best = int(np.argmax(windows.means))
    last = float(np.average(windows.means[-2:], weights=windows.counts[-2:]))
    peak, sd = float(windows.means[best]), float(values[known].std())
    if sd < 1e-9:
        return Reading(0.0, f"{name} is {number(peak)} everywhere", course.n, (), course.series)
    # The best of many windows lies above their mean by chance: three standard errors are taken off.
    fall = max(0.0, peak - last - 3 * course.noise / np.sqrt(width)) / sd
    note = (
        f"{name} was {number(peak)} around step {int(windows.steps[best])} and is {number(last)} at the end"
        f" (a fall of {number(fall)} standard deviations, beyond noise)"
    )
    return Reading(float(fall), note, course.n, (), course.series)


DIAGNOSTIC = Diagnostic(
    id="reward-collapse",
    title="Fallen from its best",
    layer=Layer.SCORE,
    formula="(mean of the best of 15 windows of steps - mean of the last two - 3 SE) / SD of a rollout; truth if it is known, else reward",
    source="ours; the tiny model's exact answers peaked at 0.15 and ended at 0.00 while its shaped reward rose (measured, docs/diagnose.md)",
    needs=("truth|reward", "step"),
    levels=Levels(0.3, 0.8),
    measure=measure,
    means="The run was better than it is: it diverged, or learned something that costs what it could do.",
    advice="Take the checkpoint of its best steps; lower the learning rate or stop earlier; see what changed in the replies.",
    cases=(
        Case(
            "collapses",
            rows_of(lambda s: {"reward": coin(s, 0.8 if s.progress < 0.6 else 0.05)}, steps=60),
            Level.CRITICAL,
        ),
        Case(
            "slips",
            rows_of(lambda s: {"reward": coin(s, 0.8 if s.progress < 0.6 else 0.42)}, steps=60, groups=8),
            Level.WARN,
        ),
        Case("rises", rows_of(lambda s: {"reward": coin(s, ramp(s, 0.2, 0.8))}, steps=60), Level.OK),
        Case("flat and noisy", rows_of(lambda s: {"reward": coin(s, 0.5)}, steps=60), Level.OK),
    ),
)
