"""What the mean over kept groups tells against the mean over all."""

import numpy as np

from coevo.diagnostics.casebook import coin, ramp, rows_of
from coevo.diagnostics.course import MIN_STEPS, by_step, change, number
from coevo.diagnostics.types import Case, Diagnostic, Layer, Level, Levels, Reading
from coevo.evidence.types import Frame


def measure(frame: Frame, baseline: Frame | None) -> Reading:
    rewards, kept = frame.numbers("reward"), frame.numbers("kept")
    known = np.isfinite(rewards) & np.isfinite(kept)
    if not known.any() or (kept[known] == 1).all():
        return Reading(0.0, "everything was kept", int(known.sum()))
    every, some = by_step(frame, rewards, known), by_step(frame, rewards, known & (kept == 1))
    both = np.isin(every.steps, some.steps)
    every = every._replace(steps=every.steps[both], means=every.means[both], counts=every.counts[both])
    a, k = change(every), change(some)
    d = change(every._replace(means=some.means - every.means))
    sd = float(rewards[known].std())
    if a is None or k is None or d is None or sd < 1e-9:
        return Reading(None, f"{len(every.steps)} steps with kept and dropped rollouts; it takes {MIN_STEPS}")
    # How much more (or less) the kept mean rose, at the least.
    apart = max(d.low, -d.high, 0.0) / sd
    note = (
        f"reward over all {number(a.early)} -> {number(a.late)}, over what was kept {number(k.early)} -> {number(k.late)}"
        f" (kept {number(float((kept[known] == 1).mean()))} of rollouts)"
    )
    series = every._replace(means=some.means - every.means).series
    return Reading(apart, note, int(known.sum()), (), series)


def _run(late: float):
    """Groups that are hopeless are dropped; `late` is a group's chance of being so at the end."""
    fresh = rows_of(
        lambda s: {"reward": coin(s, 0.5), "kept": True, "hopeless": coin(s, ramp(s, 0.0, late))}, groups=8, steps=60
    )

    def rows():
        made = list(fresh())
        hopeless = {row["group"] for row in made if row["sample"] == 0 and row["hopeless"]}
        return [{**row, "reward": 0.0, "kept": False} if row["group"] in hopeless else row for row in made]

    return rows


DIAGNOSTIC = Diagnostic(
    id="filter-illusion",
    title="The filtered mean",
    layer=Layer.SIGNAL,
    formula="|rise of the kept mean - rise of the mean over all|, first against last third, lower end of its 95 % interval, in SD of a rollout's reward",
    source="a run was judged by the mean after its filter in training-gym#432. Levels: ours",
    needs=("kept", "reward", "step"),
    levels=Levels(0.2, 0.4),
    measure=measure,
    means="The curve of what was kept is not the curve of the policy: the filter's choice changed over the run.",
    advice="Read and report the mean over all rollouts, before any filter.",
    cases=(
        Case("ever more is dropped", _run(0.95), Level.CRITICAL),
        Case("as much as ever", _run(0.0), Level.OK),
        Case(
            "a fair filter", rows_of(lambda s: {"reward": coin(s, ramp(s, 0.2, 0.7)), "kept": s.group != 3}), Level.OK
        ),
        Case("no filter", rows_of(lambda s: {"reward": coin(s, 0.5), "kept": True}), Level.OK),
    ),
)
