"""Rollouts that the machine lost."""

import numpy as np

from coevo.diagnostics.casebook import coin, rows_of
from coevo.diagnostics.course import by_step, number, shown
from coevo.diagnostics.signal import lost_rows
from coevo.diagnostics.types import Case, Diagnostic, Layer, Level, Levels, Reading
from coevo.evidence.types import Frame


def measure(frame: Frame, baseline: Frame | None) -> Reading:
    lost = lost_rows(frame)
    course = by_step(frame, lost.astype(float))
    share = float(lost.mean())
    codes, values = frame.words("unmeasured_reason")
    common = ""
    if lost.any():
        counts = np.bincount(codes[lost], minlength=len(values))
        reason = values[int(counts.argmax())]
        common = f"; most often: {reason[:120]} ({int(counts.max())})"
    worst = f", at worst {number(float(course.means.max()))} of a step" if len(course.steps) > 1 else ""
    note = f"{int(lost.sum())} of {frame.rows} rollouts have no measurement{worst}{common}"
    return Reading(share, note, frame.rows, shown(frame, lost), course.series)


def _losing(chance: float):
    return rows_of(
        lambda s: {"reward": None, "unmeasured_reason": "timeout"} if coin(s, chance) else {"reward": coin(s, 0.5)}
    )


DIAGNOSTIC = Diagnostic(
    id="infrastructure",
    title="Lost measurements",
    layer=Layer.MEASUREMENT,
    formula="share of rollouts with an unmeasured_reason",
    source="prime-rl's training guide takes 5 % for the bound of normal operation; 20 %: ours",
    needs=("unmeasured_reason",),
    levels=Levels(0.05, 0.2),
    measure=measure,
    means="Sandboxes, endpoints or the reward function failed. What is left is fewer rollouts than were paid for, perhaps a biased choice of them.",
    advice="Read the most frequent reason and mend that. Never count such rollouts as zeros.",
    cases=(
        Case("a third is lost", _losing(0.3), Level.CRITICAL),
        Case("one in ten", _losing(0.1), Level.WARN),
        Case("one in a hundred", _losing(0.01), Level.OK),
        Case("nothing is lost", _losing(0.0), Level.OK),
    ),
)
