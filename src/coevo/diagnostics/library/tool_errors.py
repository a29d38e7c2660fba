"""Calls of tools that fail."""

import numpy as np

from coevo.diagnostics.casebook import ramp, rows_of
from coevo.diagnostics.course import by_step, change, number, unknown, worst
from coevo.diagnostics.signal import late_rows
from coevo.diagnostics.types import Case, Diagnostic, Layer, Level, Levels, Reading
from coevo.evidence.types import Frame

FEW = 50
"""Calls."""


def measure(frame: Frame, baseline: Frame | None) -> Reading:
    calls, errors = frame.numbers("tool_calls"), frame.numbers("tool_errors")
    used = np.isfinite(calls) & np.isfinite(errors) & (calls > 0)
    now = used & late_rows(frame)
    total = float(calls[now].sum())
    if total < FEW:
        return unknown(f"{total:,.0f} late calls of tools; it takes {FEW}", int(now.sum()))
    value = float(errors[now].sum() / total)
    rates = errors / np.where(used, calls, 1.0)
    course = by_step(frame, rates, used)
    note = f"{value:.1%} of {total:,.0f} late calls fail"
    if (found := change(course)) is not None:
        note += f"; a rollout's share {number(found.early)} -> {number(found.late)}"
    return Reading(value, note, int(now.sum()), worst(frame, rates, now & (errors > 0)), course.series)


def _failing(first: float, last: float):
    def row(s):
        calls = 1 + int(s.rng.poisson(5))
        return {"tool_calls": calls, "tool_errors": int(s.rng.binomial(calls, ramp(s, first, last))), "reward": 0.0}

    return row


DIAGNOSTIC = Diagnostic(
    id="tool-errors",
    title="Failing tool calls",
    layer=Layer.BEHAVIOUR,
    formula="sum of tool_errors over sum of tool_calls, late rollouts",
    source="TRL tools/failure_frequency; verifiers issue 1416; EvoTrainer, arXiv 2606.03108 (edit failures over 15 %)",
    needs=("tool_calls", "tool_errors"),
    levels=Levels(0.15, 0.4),
    measure=measure,
    means="The policy calls tools in a way that they refuse, or the tools are broken.",
    advice="Read the errors: if they are ours, mend the tool; if it is the form of the call, show it in the prompt, or reward well-formed calls until they are learned.",
    cases=(
        Case("half fail in the end", rows_of(_failing(0.1, 0.6)), Level.CRITICAL),
        Case("a fifth fail", rows_of(_failing(0.2, 0.2)), Level.WARN),
        Case("few fail", rows_of(_failing(0.05, 0.05)), Level.OK),
        Case("failed at first, and learned", rows_of(_failing(0.7, 0.02)), Level.OK),
        Case("no tools", rows_of(lambda s: {"tool_calls": 0, "tool_errors": 0, "reward": 0.0}), Level.UNKNOWN),
    ),
)
