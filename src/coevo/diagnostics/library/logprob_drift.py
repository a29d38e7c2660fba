"""Whether what is sampled becomes ever less likely: noise instead of a policy."""

from coevo.diagnostics.casebook import coin, ramp, rows_of
from coevo.diagnostics.course import MIN_STEPS, by_step, change, number, smoothed, worst
from coevo.diagnostics.signal import late_rows, uncertainty
from coevo.diagnostics.types import Case, Diagnostic, Layer, Level, Levels, Reading
from coevo.evidence.types import Frame

WINDOWS = 15


def measure(frame: Frame, baseline: Frame | None) -> Reading:
    name, values = uncertainty(frame)
    course = by_step(frame, values)
    if len(course.steps) < MIN_STEPS:
        return Reading(
            None, f"{len(course.steps)} steps with {name}; it takes {MIN_STEPS}", course.n, (), course.series
        )
    windows = smoothed(course, max(1, len(course.steps) // WINDOWS))
    early = float(windows.means[0])
    if early <= 0:
        return Reading(None, f"{name} is {number(early)} at the start", course.n, (), course.series)
    peak = int(windows.means.argmax())
    ratio = float(windows.means[peak]) / early
    found = change(course)
    trend = f"; {number(found.early)} -> {number(found.late)} from the first to the last third" if found else ""
    note = f"{name} per token reaches {number(float(windows.means[peak]))} around step {int(windows.steps[peak])}, {number(early)} at the start{trend}"
    rows = worst(frame, values, late_rows(frame)) if ratio >= DIAGNOSTIC.levels.warn else ()
    return Reading(ratio, note, course.n, rows, course.series)


def _run(last: float):
    return rows_of(
        lambda s: {"reward": coin(s, 0.4), "logprob_mean": -ramp(s, 0.5, last) * float(s.rng.uniform(0.5, 1.5))}
    )


DIAGNOSTIC = Diagnostic(
    id="logprob-drift",
    title="Log-probabilities run away",
    layer=Layer.POLICY,
    formula="highest of 15 windowed means of entropy per token (without it: of -logprob_mean) / the first of them",
    source="entropy eruption in agents, arXiv 2605.27954; divergence, OpenRLHF#1120. Levels: ours",
    needs=("logprob_mean|entropy_mean", "step"),
    levels=Levels(2.0, 4.0),
    measure=measure,
    means="The policy writes what it holds for ever less likely: updates tear it apart, or an entropy bonus is all that is left of the gradient.",
    advice="Lower the learning rate, bound the gradient norm, turn a constant entropy bonus into a floor; compare sampler and trainer log-probabilities.",
    cases=(
        Case("erupts", _run(4.0), Level.CRITICAL),
        Case("triples", _run(1.6), Level.WARN),
        Case("falls", _run(0.2), Level.OK),
        Case("stays", _run(0.5), Level.OK),
    ),
)
