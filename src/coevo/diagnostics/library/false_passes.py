"""Programs that pass every test that is shown, and are wrong."""

import math

import numpy as np

from coevo.diagnostics.casebook import coin, ramp, rows_of
from coevo.diagnostics.course import by_step, groups_of, number, quantile_t, worst
from coevo.diagnostics.signal import late_rows
from coevo.diagnostics.types import Case, Diagnostic, Layer, Level, Levels, Reading
from coevo.evidence.types import Frame

FEWEST = 6
"""Groups with a pass that an interval takes."""


def measure(frame: Frame, baseline: Frame | None) -> Reading:
    fitness, truth = frame.numbers("fitness"), frame.numbers("truth")
    passed = frame.numbers("meaning_ok") > 0 if frame.has("meaning_ok") else fitness >= 1 - 1e-9
    passed &= np.isfinite(truth) & (fitness > 0) & ~_open(frame)
    with np.errstate(divide="ignore", invalid="ignore"):
        lost = np.where(passed, np.clip(1 - truth / fitness, 0.0, 1.0), np.nan)
    late = late_rows(frame, mask=passed)
    groups = groups_of(frame, lost, late)
    k, n = len(groups.n), int(late.sum())
    if k < FEWEST:
        return Reading(None, f"{k} late groups with a program that passes all that is shown; it takes {FEWEST}", n)
    # A group is one task's: its programs are often the same one, so that groups are what is counted.
    mean, se = float(groups.mean.mean()), float(groups.mean.std(ddof=1)) / math.sqrt(k)
    low = max(0.0, mean - quantile_t(k - 1) * se)
    note = (
        f"of {n} late programs that pass every shown test {int((lost[late] > 0.5).sum())} are mostly wrong on hidden ones; "
        f"{number(mean)} of what passing is worth is lost there, at least {number(low)} (in {k} groups)"
    )
    rows = worst(frame, lost, late & (lost > 0.5)) if low >= DIAGNOSTIC.levels.warn else ()
    return Reading(low, note, n, rows, by_step(frame, lost).series)


def _open(frame: Frame) -> np.ndarray:
    """bool of (rows,): open tasks, on which passing only says that an answer is valid."""
    codes, values = frame.words("kind")
    return codes == values.index("open") if "open" in values else np.zeros(frame.rows, dtype=bool)


def _passing(wrong_at_the_end: float):
    def make(s):
        passes = coin(s, 0.4)
        right = passes * coin(s, 1 - ramp(s, 0.0, wrong_at_the_end))
        return {"fitness": passes, "meaning_ok": passes > 0, "truth": right, "kind": "function"}

    return rows_of(make)


DIAGNOSTIC = Diagnostic(
    id="false-passes",
    title="Passes that are none",
    layer=Layer.SCORE,
    formula="mean of 1 - truth / fitness over rollouts that pass every shown test (meaning_ok; without it, fitness 1), by groups, last third; lower end of the 95 % interval over groups. Open tasks are left out",
    source="ours; a 135M model learnt to return the one answer that MBPP shows (docs/log.md), and the rise was too short for public-hidden-gap",
    needs=("fitness", "truth", "group|task"),
    levels=Levels(0.2, 0.5),
    measure=measure,
    means="Passing says little: programs answer the tests that are shown, and nothing else. A reward of passes pays for that.",
    advice="Read the programs shown: constants, literals of the tests? Add generated inputs to the public suite, keep its answers out of the prompt.",
    cases=(
        Case("answers are hard-coded", _passing(0.9), Level.CRITICAL),
        Case("some are", _passing(0.45), Level.WARN),
        Case("what passes is right", _passing(0.02), Level.OK),
        Case(
            "hardly anything passes",
            rows_of(lambda s: {"fitness": 0.3, "truth": 0.1, "meaning_ok": False}),
            Level.UNKNOWN,
        ),
        Case(
            "open tasks",
            rows_of(lambda s: {"fitness": 0.8, "truth": 0.2, "meaning_ok": True, "kind": "open"}),
            Level.UNKNOWN,
        ),
    ),
)
