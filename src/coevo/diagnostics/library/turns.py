"""Episodes that take more and more turns."""

import numpy as np

from coevo.diagnostics.behaviour import drift, failed_to_passed, success_rose
from coevo.diagnostics.casebook import coin, ramp, rows_of
from coevo.diagnostics.course import number
from coevo.diagnostics.types import Case, Diagnostic, Layer, Level, Levels, Reading
from coevo.evidence.types import Frame


def measure(frame: Frame, baseline: Frame | None) -> Reading:
    turns = frame.numbers("turns")
    if np.nanmax(turns) <= 1:
        return Reading(None, "every episode has one turn", int(np.isfinite(turns).sum()))
    reading = drift(frame, turns, "turns")
    if reading.value is None:
        return reading
    ratio, groups, _ = failed_to_passed(frame, turns)
    note = reading.note + (
        f"; failed episodes take {number(ratio)} times the turns of passed ones" if groups >= 10 else ""
    )
    rose, success = success_rose(frame)
    value = reading.value
    if rose and value >= 2.0:
        value, note = 1.65, f"{note}; {success}: comes with success, which forgives a level"
    return reading._replace(value=value, note=note)


def _turns(first: float, last: float):
    return lambda s: {"turns": 1 + int(s.rng.poisson(ramp(s, first, last) - 1)), "reward": coin(s, 0.4)}


DIAGNOSTIC = Diagnostic(
    id="turns",
    title="Turns",
    layer=Layer.BEHAVIOUR,
    formula="late / early of the mean number of turns, first against last third of the steps; 1 within chance. Where truth (else reward) rose beyond chance, a critical "
    "value is set back to 1.65, a warning. The note holds the ratio of failed to passed episodes in the same group",
    source="EvoTrainer, arXiv 2606.03108 (echo trap: turns rise three evaluations running, or failing runs use over 1.5 times the turns); RAGEN, arXiv 2504.20073",
    needs=("turns", "step"),
    levels=Levels(1.3, 2.0),
    measure=measure,
    means="Episodes go on without getting further.",
    advice="Bound the turns, add an efficiency term, and look for an episode that repeats its last command.",
    cases=(
        Case("from four to fourteen turns", rows_of(_turns(4, 14)), Level.CRITICAL),
        Case("half as many again", rows_of(_turns(6, 9.5)), Level.WARN),
        Case("stays", rows_of(_turns(6, 6)), Level.OK),
        Case("gets shorter", rows_of(_turns(9, 4)), Level.OK),
        Case(
            "longer, and solves more",
            rows_of(lambda s: {"turns": int(ramp(s, 3, 12)), "reward": coin(s, ramp(s, 0.1, 0.8))}),
            Level.WARN,
        ),
        Case("one turn each", rows_of(lambda s: {"turns": 1, "reward": coin(s, 0.4)}), Level.UNKNOWN),
    ),
)
