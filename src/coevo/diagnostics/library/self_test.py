"""Whether it still tests its own work."""

import numpy as np

from coevo.diagnostics.casebook import coin, ramp, rows_of
from coevo.diagnostics.course import MIN_STEPS, by_step, change, shown
from coevo.diagnostics.prose import fenced, program
from coevo.diagnostics.signal import late_rows
from coevo.diagnostics.types import Case, Diagnostic, Layer, Level, Levels, Reading
from coevo.evidence.types import Frame


def measure(frame: Frame, baseline: Frame | None) -> Reading:
    tests = frame.numbers("text.self_test")
    course = by_step(frame, tests, np.isfinite(tests))
    found = change(course)
    if found is None:
        return Reading(
            None, f"{len(course.steps)} steps with responses; it takes {MIN_STEPS}", course.n, (), course.series
        )
    value = found.difference if found.rose or found.fell else 0.0
    note = f"{found.early:.0%} -> {found.late:.0%} of responses hold tests of their own (first and last {found.steps} steps)"
    without = late_rows(frame) & (tests == 0) if value < 0 else np.zeros(frame.rows, dtype=bool)
    return Reading(value, note, course.n, shown(frame, without), course.series)


def _testing(first: float, last: float):
    def row(s):
        code = program(s)
        tested = f"{code}\n\nassert solve([1]) == 1\n" if coin(s, ramp(s, first, last)) else code
        return {"response": fenced(tested), "reward": 0.0}

    return row


DIAGNOSTIC = Diagnostic(
    id="self-test",
    title="Self-testing",
    layer=Layer.BEHAVIOUR,
    formula="late - early share of responses that hold assertions, a test module, or a command that runs tests; first against last third of the steps, 0 within chance",
    source="EvoTrainer, arXiv 2606.03108 (self-test rate; laziness: down by 15 points)",
    needs=("text.self_test", "step"),
    levels=Levels(-0.15, -0.4),
    measure=measure,
    means="Checking its own work stopped paying.",
    advice="See whether a length penalty charges for it. Where episodes have tools, reward tests that were run after the last edit.",
    cases=(
        Case("all did, none does", rows_of(_testing(1.0, 0.0), steps=15), Level.CRITICAL),
        Case("a third of them stop", rows_of(_testing(0.8, 0.4), steps=15), Level.WARN),
        Case("most do, and go on", rows_of(_testing(0.8, 0.8), steps=15), Level.OK),
        Case("never did", rows_of(_testing(0.0, 0.0), steps=15), Level.OK),
        Case("takes it up", rows_of(_testing(0.1, 0.9), steps=15), Level.OK),
    ),
)
