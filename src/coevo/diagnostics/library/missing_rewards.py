"""Rollouts without a reward and without a reason for that."""

import numpy as np

from coevo.diagnostics.casebook import coin, rows_of
from coevo.diagnostics.course import by_step, shown
from coevo.diagnostics.signal import lost_rows
from coevo.diagnostics.types import Case, Diagnostic, Layer, Level, Levels, Reading
from coevo.evidence.types import Frame


def measure(frame: Frame, baseline: Frame | None) -> Reading:
    missing = ~np.isfinite(frame.numbers("reward")) & ~lost_rows(frame)
    note = f"{int(missing.sum())} of {frame.rows} rollouts have no finite reward and no reason for it"
    return Reading(
        float(missing.mean()), note, frame.rows, shown(frame, missing), by_step(frame, missing.astype(float)).series
    )


DIAGNOSTIC = Diagnostic(
    id="missing-rewards",
    title="Rewards that are not numbers",
    layer=Layer.MEASUREMENT,
    formula="share of rollouts whose reward is absent, NaN or infinite, and that have no unmeasured_reason",
    source="ours; trainers let one infinite reward zero its whole group's advantages without a word (TRL 1.16)",
    needs=("reward",),
    levels=Levels(0.001, 0.05),
    measure=measure,
    means="The reward function returned nothing, NaN or infinity.",
    advice="Guard the reward function: a number, or a failure with a reason.",
    cases=(
        Case("NaN now and then", rows_of(lambda s: {"reward": float("nan") if coin(s, 0.02) else 1.0}), Level.WARN),
        Case(
            "infinite for one task",
            rows_of(lambda s: {"reward": float("inf") if s.group == 0 else 1.0}),
            Level.CRITICAL,
        ),
        Case("all there", rows_of(lambda s: {"reward": coin(s, 0.5)}), Level.OK),
        Case(
            "lost with a reason",
            rows_of(
                lambda s: {"reward": None, "unmeasured_reason": "worker died"} if coin(s, 0.1) else {"reward": 1.0}
            ),
            Level.OK,
        ),
    ),
)
