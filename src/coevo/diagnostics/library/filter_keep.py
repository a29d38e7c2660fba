"""How much of what is sampled is trained on."""

import numpy as np

from coevo.diagnostics.casebook import coin, rows_of
from coevo.diagnostics.course import by_step, number
from coevo.diagnostics.signal import late_rows, lost_rows
from coevo.diagnostics.types import Case, Diagnostic, Layer, Level, Levels, Reading
from coevo.evidence.types import Frame


def measure(frame: Frame, baseline: Frame | None) -> Reading:
    kept = frame.numbers("kept")
    known = np.isfinite(kept) & ~lost_rows(frame)
    late = late_rows(frame, mask=known)
    if not late.any():
        return Reading(None, "no measured rollout says whether it was kept")
    share = float(kept[late].mean())
    course = by_step(frame, kept, known)
    steps = int((course.means == 0).sum())
    note = f"{number(share)} of the late rollouts were kept, {number(float(kept[known].mean()))} over all; {steps} of {len(course.steps)} steps trained on nothing"
    return Reading(share, note, int(late.sum()), (), course.series)


def _keeping(share: float):
    return rows_of(lambda s: {"reward": coin(s, 0.5), "kept": (s.step * 4 + s.group) % 20 < 20 * share})


DIAGNOSTIC = Diagnostic(
    id="filter-keep",
    title="What the filter keeps",
    layer=Layer.SIGNAL,
    formula="share of measured rollouts with kept = true, last third",
    source="EvoTrainer, arXiv 2606.03108, keeps at least half; the lower level: ours",
    needs=("kept",),
    levels=Levels(0.4, 0.1),
    measure=measure,
    means="Most of the sampling is paid for and thrown away; batches are small and their gradients noisy.",
    advice="Look why: dead groups (another reward, other tasks), or a filter that is too strict.",
    cases=(
        Case("next to nothing", _keeping(0.05), Level.CRITICAL),
        Case("a third", _keeping(0.3), Level.WARN),
        Case("most", _keeping(0.8), Level.OK),
    ),
)
