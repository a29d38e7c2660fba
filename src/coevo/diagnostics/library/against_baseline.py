"""The end of a run against the end of the one it came from, task by task."""

import math

import numpy as np

from coevo.diagnostics.casebook import coin, rows_of
from coevo.diagnostics.course import number
from coevo.diagnostics.signal import late_rows, level_values
from coevo.diagnostics.types import Case, Diagnostic, Layer, Level, Levels, Reading
from coevo.evidence.types import Frame

FEWEST = 4
"""Tasks in common."""


def measure(frame: Frame, baseline: Frame | None) -> Reading:
    assert baseline is not None
    name, values = level_values(frame)
    other, before = level_values(baseline)
    if name != other:
        return Reading(None, f"here it is {name} that is known, in the baseline {other}")
    ours, theirs = _late_means(frame, values), _late_means(baseline, before)
    both = sorted(set(ours) & set(theirs))
    if len(both) < FEWEST:
        return Reading(None, f"{len(both)} tasks in common have {name}; it takes {FEWEST}", len(both))
    differences = np.array([ours[task][0] - theirs[task][0] for task in both])
    # Tasks differ in how much they change, and each mean has its own noise: the larger of both errors counts.
    between = float(differences.std(ddof=1)) / math.sqrt(len(both))
    within = math.sqrt(sum(ours[task][1] + theirs[task][1] for task in both)) / len(both)
    se = max(between, within)
    gain = float(differences.mean())
    note = f"{name} {gain:+.3f} against the baseline over {len(both)} tasks (standard error {number(se)}; late rollouts of both)"
    return Reading(gain / se if se else float(np.sign(gain)) * 100.0, note, len(both))


def _late_means(frame: Frame, values: np.ndarray) -> dict[str, tuple[float, float]]:
    """Task -> mean of its late rollouts, and the square of its standard error."""
    late = late_rows(frame, mask=np.isfinite(values))
    codes, names = frame.words("task")
    late &= codes >= 0
    n = np.bincount(codes[late], minlength=len(names))
    mean = np.bincount(codes[late], weights=values[late], minlength=len(names)) / np.maximum(n, 1)
    square = np.bincount(codes[late], weights=values[late] ** 2, minlength=len(names)) / np.maximum(n, 1)
    variance = np.maximum(square - mean**2, 0) / np.maximum(n - 1, 1)
    return {names[i]: (float(mean[i]), float(variance[i])) for i in np.flatnonzero(n)}


_before = rows_of(lambda s: {"reward": coin(s, 0.5)}, seed=1)

DIAGNOSTIC = Diagnostic(
    id="against-baseline",
    title="Against the run it came from",
    layer=Layer.SCORE,
    formula="mean over common tasks of (late mean - the baseline's late mean), over its standard error (between tasks, or of rollouts if that is larger); truth, else reward",
    source="ours; whether it is an advance is the gate's to say, on fresh samples",
    needs=("truth|reward", "task"),
    levels=Levels(-2.0, -4.0),
    measure=measure,
    means="It is worse than what it started from.",
    advice="Take the change back, or see on which tasks it lost.",
    cases=(
        Case("much worse", rows_of(lambda s: {"reward": coin(s, 0.2)}), Level.CRITICAL, _before),
        Case("better", rows_of(lambda s: {"reward": coin(s, 0.7)}), Level.OK, _before),
        Case("the same", rows_of(lambda s: {"reward": coin(s, 0.5)}, seed=2), Level.OK, _before),
        Case("no baseline", _before, Level.UNKNOWN),
    ),
    needs_baseline=True,
)
