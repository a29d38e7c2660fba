"""Whether the run gets better at all."""

import math

import numpy as np

from coevo.diagnostics.casebook import coin, ramp, rows_of
from coevo.diagnostics.course import MIN_STEPS, Course, by_step, change, number
from coevo.diagnostics.signal import level_values
from coevo.diagnostics.types import Case, Diagnostic, Layer, Level, Levels, Reading
from coevo.evidence.types import Frame

TOP = 0.95
"""Of the range of values: who starts and stays above it has nothing left to learn here."""
SMALL = 0.25
"""Standard deviations of a rollout's value: a gain that can be excluded to be larger than this is none."""


def measure(frame: Frame, baseline: Frame | None) -> Reading:
    name, values = level_values(frame)
    known = np.isfinite(values)
    course = by_step(frame, values, known)
    found = change(course)
    if found is None:
        return Reading(
            None, f"{len(course.steps)} steps with {name}; it takes {MIN_STEPS}", int(known.sum()), (), course.series
        )
    low, high, sd = float(values[known].min()), float(values[known].max()), float(values[known].std())
    note = (
        f"{name} {number(found.early)} -> {number(found.late)} (first and last {found.steps} steps; "
        f"change between {number(found.low)} and {number(found.high)})"
    )
    value = found.difference / found.se if found.se else _sign(found.difference)
    if -4.0 < value < 2.0 and (at_once := _at_once(course)) > max(value, 2.0):
        value, note = at_once, f"{note}; all of it in the first steps, from {number(float(course.means[0]))}"
    reading = Reading(value, note, course.n, (), course.series)
    if min(found.early, found.late) >= low + TOP * (high - low) and high > low:
        return reading._replace(value=max(2.0, reading.value or 0.0), note=f"{note}: already at the top")
    if abs(value) < 1.96 and found.high > SMALL * sd:
        return reading._replace(value=None, note=f"{note}: too few rollouts to tell")
    return reading


def _at_once(course: Course) -> float:
    """The last third against the very first steps: who learns within them is flat afterwards."""
    few, k = 2, len(course.steps) // 3
    se = course.noise * math.sqrt(1 / few + 1 / k)
    return float(course.means[-k:].mean() - course.means[:few].mean()) / se if se else 0.0


def _sign(difference: float) -> float:
    return float(np.sign(difference)) * 100.0


DIAGNOSTIC = Diagnostic(
    id="learning",
    title="Is it learning",
    layer=Layer.SCORE,
    formula="(late - early) / SE of truth (max(0, truth - parent_fitness) where there are parents; reward, where truth is known for less than half, unless for 300 that were picked whatever they earned), last third against the first third, or the first two of the steps; noise from neighbouring steps. Unknown while a gain of 0.25 SD of a rollout can neither be shown nor excluded",
    source="ours; two and four standard errors",
    needs=("truth|reward", "step"),
    levels=Levels(1.96, -4.0),
    measure=measure,
    means="What is measured did not rise beyond its noise; critical: it fell.",
    advice="See whether there is a signal (dead groups, spread) before the learning rate is touched; if it fell, go back to an earlier checkpoint.",
    cases=(
        Case("gets better", rows_of(lambda s: {"reward": coin(s, ramp(s, 0.2, 0.7))}), Level.OK),
        Case("stays", rows_of(lambda s: {"reward": coin(s, 0.4)}, steps=200), Level.WARN),
        Case("gets worse", rows_of(lambda s: {"reward": coin(s, ramp(s, 0.7, 0.1))}), Level.CRITICAL),
        Case("too short to tell", rows_of(lambda s: {"reward": coin(s, 0.4)}, steps=8, groups=1), Level.UNKNOWN),
        Case("nothing left to learn", rows_of(lambda s: {"reward": coin(s, 0.99)}, steps=100), Level.OK),
        Case(
            "reward up, truth down",
            rows_of(lambda s: {"reward": coin(s, ramp(s, 0.2, 0.8)), "truth": coin(s, ramp(s, 0.6, 0.1))}),
            Level.CRITICAL,
        ),
        Case(
            "the same, truth measured for a quarter",
            rows_of(
                lambda s: {
                    "reward": coin(s, ramp(s, 0.2, 0.8)),
                    "truth": coin(s, ramp(s, 0.6, 0.1)) if s.sample < 4 else None,
                },
                size=16,
            ),
            Level.CRITICAL,
        ),
        Case(
            "truth looked up only for some of what passes",
            rows_of(
                lambda s: {
                    "reward": (paid := coin(s, ramp(s, 0.2, 0.8))),
                    "truth": coin(s, 0.5) if paid and s.sample < 10 else None,
                },
                size=16,
            ),
            Level.OK,
        ),
    ),
)
