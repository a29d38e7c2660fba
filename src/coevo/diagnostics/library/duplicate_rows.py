"""The same rollout recorded twice."""

import numpy as np

from coevo.diagnostics.casebook import coin, rows_of
from coevo.diagnostics.course import shown
from coevo.diagnostics.types import Case, Diagnostic, Layer, Level, Levels, Reading
from coevo.evidence.types import Frame


def measure(frame: Frame, baseline: Frame | None) -> Reading:
    sample = frame.numbers("sample")
    known = np.isfinite(sample)
    keys = np.stack([frame.groups[known].astype(float), sample[known]], axis=1)
    order = np.lexsort((keys[:, 1], keys[:, 0]))
    same = (np.diff(keys[order], axis=0) == 0).all(axis=1)
    again = np.zeros(frame.rows, dtype=bool)
    again[np.flatnonzero(known)[order[1:][same]]] = True
    note = f"{int(again.sum())} of {int(known.sum())} rollouts have the run, branch, split, step, group and sample number of another"
    return Reading(float(again.sum() / max(1, known.sum())), note, int(known.sum()), shown(frame, again))


DIAGNOSTIC = Diagnostic(
    id="duplicate-rows",
    title="Rollouts recorded twice",
    layer=Layer.MEASUREMENT,
    formula="share of rows whose (run, branch, split, step, group, sample) another row has, too",
    source="ours; double scoring in cap-evolve#363",
    needs=("sample", "group|task"),
    levels=Levels(0.001, 0.1),
    measure=measure,
    means="Rows were written twice (a resume, several workers), or groups share a name: counts and means are off.",
    advice="Make group names unique within a step, and writing idempotent.",
    cases=(
        Case("every row twice", lambda: [row for row in _fair() for _ in range(2)], Level.CRITICAL),
        Case("each once", lambda: _fair(), Level.OK),
        Case("one step resumed", lambda: [*_fair(), *_fair()[-32:]], Level.WARN),
    ),
)

_fair = rows_of(lambda s: {"reward": coin(s, 0.5)})
