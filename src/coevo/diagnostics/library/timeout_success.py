"""Rollouts that timed out or broke off, and were paid as successes."""

import numpy as np

from coevo.diagnostics.casebook import coin, rows_of
from coevo.diagnostics.course import number, shown, usable
from coevo.diagnostics.types import Case, Diagnostic, Layer, Level, Levels, Reading
from coevo.evidence.types import Frame

BROKEN = ("timeout", "timed", "deadline", "time_limit", "error", "crash", "killed", "abort", "cancel")
"""What the stop reasons of broken rollouts contain. A reply cut at its length may still be right, so "length" is none of them."""


def measure(frame: Frame, baseline: Frame | None) -> Reading:
    codes, values = frame.words("stop_reason")
    bad = np.isin(codes, [i for i, value in enumerate(values) if any(word in value.lower() for word in BROKEN)])
    rewards, known = frame.numbers("reward"), np.isfinite(frame.numbers("reward"))
    if not bad.any():
        return Reading(0.0, "no rollout timed out or broke off", frame.rows)
    fine = rewards[usable(frame, "reward") & ~bad]
    if not len(fine) or fine.max() == fine.min():
        return Reading(None, "rollouts that ended well all have the same reward, so success cannot be told")
    bar = (float(fine.max()) + float(fine.min())) / 2
    paid = bad & known & (rewards > bar)
    note = f"{int(paid.sum())} of {int(bad.sum())} rollouts that timed out or broke off earned over {number(bar)}, half of what there is to earn"
    return Reading(float(paid.sum() / bad.sum()), note, int(bad.sum()), shown(frame, paid))


def _timing_out(reward: float):
    return rows_of(
        lambda s: (
            {"reward": reward, "stop_reason": "timeout"}
            if coin(s, 0.1)
            else {"reward": coin(s, 0.5), "stop_reason": "stop"}
        )
    )


DIAGNOSTIC = Diagnostic(
    id="timeout-success",
    title="Timeouts paid as successes",
    layer=Layer.MEASUREMENT,
    formula="of the rollouts whose stop_reason tells of a timeout, an error or a kill, the share whose reward is over the middle of the range of rewards",
    source="ours; a rollout that timed out was accepted with reward 1.0 in fw-ai/cookbook#692",
    needs=("stop_reason", "reward"),
    levels=Levels(0.02, 0.2),
    measure=measure,
    means="Not finishing is paid like finishing: the judge takes the absence of a failure for a success.",
    advice="Make the judge score what was finished, or nothing; check what it returns when it is cut off.",
    cases=(
        Case("timeouts earn all", _timing_out(1.0), Level.CRITICAL),
        Case("timeouts earn nothing", _timing_out(0.0), Level.OK),
        Case(
            "cut at the length, and right",
            rows_of(lambda s: {"reward": coin(s, 0.5), "stop_reason": "length"}),
            Level.OK,
        ),
    ),
)
