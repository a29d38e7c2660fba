"""Infrastructure errors that were given a reward all the same."""

import numpy as np

from coevo.diagnostics.casebook import coin, rows_of
from coevo.diagnostics.course import number, shown
from coevo.diagnostics.signal import lost_rows
from coevo.diagnostics.types import Case, Diagnostic, Layer, Level, Levels, Reading
from coevo.evidence.types import Frame


def measure(frame: Frame, baseline: Frame | None) -> Reading:
    lost, rewards = lost_rows(frame), frame.numbers("reward")
    scored = lost & np.isfinite(rewards)
    if not lost.any():
        return Reading(0.0, "no rollout was lost", frame.rows)
    mean = f", {number(float(rewards[scored].mean()))} on average" if scored.any() else ""
    note = f"{int(scored.sum())} of {int(lost.sum())} unmeasured rollouts have a reward{mean}"
    return Reading(float(scored.sum() / lost.sum()), note, int(lost.sum()), shown(frame, scored))


def _lost(reward: float | None):
    return rows_of(
        lambda s: {"reward": reward, "unmeasured_reason": "sandbox died"} if coin(s, 0.1) else {"reward": coin(s, 0.5)}
    )


DIAGNOSTIC = Diagnostic(
    id="errors-scored",
    title="Errors counted as scores",
    layer=Layer.MEASUREMENT,
    formula="of the rollouts with an unmeasured_reason, the share that have a reward",
    source="ours; infrastructure errors counted as zeros in cap-evolve#333, #364",
    needs=("unmeasured_reason", "reward"),
    levels=Levels(0.01, 0.5),
    measure=measure,
    means="A failure of the machine was scored: the policy is punished (or paid) for it, and every mean is off.",
    advice="Give unmeasured rollouts no reward, and leave them out of the group's baseline.",
    cases=(
        Case("errors are zeros", _lost(0.0), Level.CRITICAL),
        Case("errors have none", _lost(None), Level.OK),
        Case("no errors", rows_of(lambda s: {"reward": coin(s, 0.5)}), Level.OK),
    ),
)
