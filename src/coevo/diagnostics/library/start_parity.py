"""Whether a run begins where the one it came from stands."""

import math

import numpy as np

from coevo.diagnostics.casebook import coin, ramp, rows_of
from coevo.diagnostics.course import number
from coevo.diagnostics.types import Case, Diagnostic, Layer, Level, Levels, Reading
from coevo.evidence.types import Frame

FEWEST = 4
"""Tasks in common."""
STEPS = 2
"""First steps that count as the start."""


def measure(frame: Frame, baseline: Frame | None) -> Reading:
    assert baseline is not None
    names = [n for n in ("truth", "fitness", "reward") if frame.has(n) and baseline.has(n)]
    if not names:
        return Reading(None, "the two have no truth, fitness or reward in common")
    name = names[0]
    steps = np.unique(frame.numbers("step")[np.isfinite(frame.numbers(name))])[:STEPS]
    theirs = np.unique(baseline.numbers("step")[np.isfinite(baseline.numbers(name))])
    if not len(steps) or not len(theirs):
        return Reading(None, "no steps")
    before = theirs[theirs < steps[0]][-STEPS:]
    # A branch that goes on from step 40 begins where its parent stands there; one that starts anew, where its parent started.
    against = before if len(before) else theirs[:STEPS]
    ours, others = _means(frame, name, steps), _means(baseline, name, against)
    both = sorted(set(ours) & set(others))
    if len(both) < FEWEST:
        return Reading(None, f"{len(both)} tasks in common in the first steps; it takes {FEWEST}", len(both))
    differences = np.array([ours[t][0] - others[t][0] for t in both])
    se = math.sqrt(sum(ours[t][1] + others[t][1] for t in both)) / len(both)
    gap = float(differences.mean())
    sd = float(np.nanstd(np.concatenate([frame.numbers(name), baseline.numbers(name)])))
    sure = max(0.0, abs(gap) - 3 * se) / sd if sd else 0.0
    at = "its end" if len(before) else "its start"
    note = f"{name} {gap:+.3f} over {len(both)} tasks against the baseline at {at} ({number(sure)} standard deviations beyond noise)"
    return Reading(sure, note, len(both))


def _means(frame: Frame, name: str, steps: np.ndarray) -> dict[str, tuple[float, float]]:
    values, (codes, names) = frame.numbers(name), frame.words("task")
    some = np.isin(frame.numbers("step"), steps) & np.isfinite(values) & (codes >= 0)
    n = np.bincount(codes[some], minlength=len(names))
    mean = np.bincount(codes[some], weights=values[some], minlength=len(names)) / np.maximum(n, 1)
    overall = float(values[some].var()) if some.any() else 0.0
    return {names[i]: (float(mean[i]), overall / float(n[i])) for i in np.flatnonzero(n)}


def _run(first: float, seed: int):
    return rows_of(lambda s: {"reward": coin(s, ramp(s, first, 0.8))}, groups=8, seed=seed)


DIAGNOSTIC = Diagnostic(
    id="start-parity",
    title="The same model at the start",
    layer=Layer.MEASUREMENT,
    formula="|mean over common tasks of (first two steps - the baseline's last two before them, or its first two)| less 3 SE, in SD of a rollout",
    source="ours; the same model differs at step 0 between systems: marin#8955, #2260; a resume that lost state: slime#1695",
    needs=("truth|fitness|reward", "step", "task"),
    levels=Levels(0.1, 0.5),
    measure=measure,
    means="The two do not start from the same policy, or do not measure alike: no difference later on can be read.",
    advice="Check that weights, prompt, sampling settings and judge are the same before anything is compared.",
    cases=(
        Case("another start", _run(0.9, 0), Level.CRITICAL, _run(0.1, 1)),
        Case("the same start", _run(0.3, 0), Level.OK, _run(0.3, 1)),
        Case("no baseline", _run(0.3, 0), Level.UNKNOWN),
    ),
    needs_baseline=True,
)
