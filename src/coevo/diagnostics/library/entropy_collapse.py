"""Whether the policy stopped exploring."""

import numpy as np

from coevo.diagnostics.casebook import coin, ramp, rows_of
from coevo.diagnostics.course import MIN_STEPS, by_step, number
from coevo.diagnostics.signal import late_rows, level_values, uncertainty
from coevo.diagnostics.types import Case, Diagnostic, Layer, Level, Levels, Reading
from coevo.evidence.types import Frame

ENDS = 0.1
"""Share of the steps at each end that is compared."""
TOP = 0.95


def measure(frame: Frame, baseline: Frame | None) -> Reading:
    name, values = uncertainty(frame)
    course = by_step(frame, values)
    if len(course.steps) < MIN_STEPS:
        return Reading(
            None, f"{len(course.steps)} steps with {name}; it takes {MIN_STEPS}", course.n, (), course.series
        )
    k = max(2, round(len(course.steps) * ENDS))
    # The very first steps: a policy that collapses does so within them.
    early, late = float(course.means[: min(k, 3)].mean()), float(course.means[-k:].mean())
    if baseline is not None and np.isfinite(old := uncertainty(baseline)[1]).any():
        before = by_step(baseline, old)
        early = max(early, float(before.means[: min(k, 3)].mean()) if len(before.steps) else early)
    if early <= 0:
        return Reading(None, f"{name} is {number(early)} from the start", course.n, (), course.series)
    ratio = max(0.0, late / early)
    note = f"{name} {number(early)} -> {number(late)} per token"
    if ratio <= DIAGNOSTIC.levels.critical and _solved(frame):
        return Reading(
            float(np.nextafter(DIAGNOSTIC.levels.critical, 1)),
            f"{note}, where nearly all is solved: convergence rather than collapse",
            course.n,
            (),
            course.series,
        )
    return Reading(ratio, note, course.n, (), course.series)


def _solved(frame: Frame) -> bool:
    _, values = level_values(frame)
    known = np.isfinite(values)
    if not known.any():
        return False
    low, high = float(values[known].min()), float(values[known].max())
    return high > low and float(values[late_rows(frame, 0.2, known)].mean()) >= low + TOP * (high - low)


def _run(last: float, right=0.4):
    return rows_of(
        lambda s: {
            "reward": coin(s, ramp(s, 0.2, right)),
            "entropy_mean": last**s.progress * float(s.rng.uniform(0.8, 1.2)),
        }
    )


DIAGNOSTIC = Diagnostic(
    id="entropy-collapse",
    title="Entropy collapse",
    layer=Layer.POLICY,
    formula="mean entropy per token over the last tenth of the steps / over the first three; without entropy_mean: of -logprob_mean. Not critical where the last fifth earns 95 % of what there is",
    source="arXiv 2605.22617: performance follows R = -a e^H + b, so entropy spent is reward spent. Levels: measured on collapsed and healthy runs, docs/diagnose.md",
    needs=("entropy_mean|logprob_mean", "step"),
    levels=Levels(0.06, 0.03),
    measure=measure,
    means="The policy is certain of what it does, and finds nothing new any more.",
    advice="Go back to a checkpoint with entropy left; lower the learning rate, raise the upper clip or add an entropy floor; widen the tasks.",
    cases=(
        Case("to nothing", _run(0.01), Level.CRITICAL),
        Case("to a thirtieth", _run(0.04), Level.WARN),
        Case("to a tenth", _run(0.1), Level.OK),
        Case("solved and certain", _run(0.01, right=1.6), Level.WARN),
        Case(
            "from log-probabilities",
            rows_of(lambda s: {"reward": coin(s, 0.4), "logprob_mean": -(0.01**s.progress)}),
            Level.CRITICAL,
        ),
        Case(
            "log-probabilities stay",
            rows_of(lambda s: {"reward": coin(s, 0.4), "logprob_mean": -float(s.rng.exponential())}),
            Level.OK,
        ),
    ),
)
