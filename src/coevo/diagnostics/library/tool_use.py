"""Tools that are used less and less."""

import numpy as np

from coevo.diagnostics.behaviour import drift, success_rose
from coevo.diagnostics.casebook import coin, ramp, rows_of
from coevo.diagnostics.types import Case, Diagnostic, Layer, Level, Levels, Reading
from coevo.evidence.types import Frame


def measure(frame: Frame, baseline: Frame | None) -> Reading:
    calls = frame.numbers("tool_calls")
    if np.nanmax(calls) <= 0:
        return Reading(None, "no tool is ever called", int(np.isfinite(calls).sum()))
    reading = drift(frame, calls, "tool calls", down=True)
    rose, success = success_rose(frame)
    if reading.value is not None and rose and reading.value < 0.7:
        return reading._replace(value=0.7, note=f"{reading.note}; {success}: needs fewer, it seems")
    return reading


def _calls(first: float, last: float, reward=lambda s: coin(s, 0.4)):
    return lambda s: {"tool_calls": int(s.rng.poisson(ramp(s, first, last))), "reward": reward(s)}


DIAGNOSTIC = Diagnostic(
    id="tool-use",
    title="Fewer tool calls",
    layer=Layer.BEHAVIOUR,
    formula="late / early of the mean number of tool calls, first against last third of the steps; 1 within chance; not under 0.7 where truth (else reward) rose beyond chance",
    source="EvoTrainer, arXiv 2606.03108 (laziness: tool use down by 30 %, completion flat)",
    needs=("tool_calls", "step"),
    levels=Levels(0.7, 0.4),
    measure=measure,
    means="The policy stops looking things up and answers from memory: cheap, and no better.",
    advice="See whether a length or turn penalty pays for it; take that part out, or reward what the tools find.",
    cases=(
        Case("from eight calls to two", rows_of(_calls(8, 1)), Level.CRITICAL),
        Case("from eight to five", rows_of(_calls(8, 4)), Level.WARN),
        Case("stays", rows_of(_calls(6, 6)), Level.OK),
        Case("uses more", rows_of(_calls(3, 8)), Level.OK),
        Case("fewer, and solves more", rows_of(_calls(8, 3, lambda s: coin(s, ramp(s, 0.2, 0.8)))), Level.WARN),
        Case("no tools", rows_of(lambda s: {"tool_calls": 0, "reward": 0.0}), Level.UNKNOWN),
    ),
)
