"""Replies that can be read, and are not right."""

import numpy as np

from coevo.diagnostics.casebook import coin, ramp, rows_of
from coevo.diagnostics.course import MIN_STEPS, by_step, change, number, shown
from coevo.diagnostics.signal import late_rows
from coevo.diagnostics.types import Case, Diagnostic, Layer, Level, Levels, Reading
from coevo.evidence.types import Frame

LEAST = 0.1
"""Rise of the share of readable replies from which on something is asked of their meaning."""

RARE = 0.02
"""Share of right replies under which partial credit is looked at instead."""


def measure(frame: Frame, baseline: Frame | None) -> Reading:
    form, (name, meaning) = frame.numbers("contract_ok"), _meaning(frame)
    both = np.isfinite(form) & np.isfinite(meaning)
    courses = [by_step(frame, values, both) for values in (form, meaning)]
    first, second = (change(course) for course in courses)
    if first is None or second is None:
        return Reading(None, f"{len(courses[0].steps)} steps with both columns; it takes {MIN_STEPS}", int(both.sum()))
    n, series = courses[0].n, courses[0]._replace(means=courses[0].means - courses[1].means).series
    note = f"readable {number(first.early)} -> {number(first.late)}, {name} {number(second.early)} -> {number(second.late)}"
    if not first.rose or first.difference < LEAST:
        return Reading(1.0, f"{note}: the format is no news", n, (), series)
    share = min(1.0, second.high / first.difference)
    rows = (
        shown(frame, late_rows(frame, mask=both) & (form == 1) & (meaning <= 0))
        if share < DIAGNOSTIC.levels.warn
        else ()
    )
    return Reading(share, f"{note}: meaning follows by at most {number(share)} of the rise", n, rows, series)


def _meaning(frame: Frame) -> tuple[str, np.ndarray]:
    """Where hardly anything is wholly right, partial credit tells of the meaning."""
    meaning = frame.numbers("meaning_ok")
    known = meaning[np.isfinite(meaning)]
    if not len(known) or known.mean() < RARE:
        for name in ("truth", "correctness", "fitness"):
            if (frame.numbers(name) > 0).any():
                return name, frame.numbers(name)
    return "right", meaning


def _run(right: float):
    def make(s):
        form = coin(s, ramp(s, 0.2, 0.95))
        return {"contract_ok": form, "meaning_ok": form * coin(s, ramp(s, 0.1, right)), "reward": form}

    return rows_of(make, steps=60)


def _partial(s):
    form = coin(s, ramp(s, 0.7, 0.95))
    return {"contract_ok": form, "meaning_ok": 0.0, "truth": form * ramp(s, 0.2, 0.6)}


DIAGNOSTIC = Diagnostic(
    id="format-meaning-gap",
    title="Format up, meaning not",
    layer=Layer.SCORE,
    formula="(rise of mean meaning_ok, at the upper end of its 95 % interval) / (rise of mean contract_ok), first against last third; 1 where the format rose by less than 0.1. Where fewer than 2 % of replies are wholly right: of truth, correctness or fitness instead",
    source="ours; gains that were format alone: marin#8955",
    needs=("contract_ok", "meaning_ok", "step"),
    levels=Levels(0.25, 0.05),
    measure=measure,
    means="The policy learned to be parsed. A gain in reward may be nothing else.",
    advice="Report both. Lower what the format earns once most replies have it, and give partial credit for meaning.",
    cases=(
        Case(
            "readable and wrong",
            rows_of(lambda s: {"contract_ok": coin(s, ramp(s, 0.2, 0.95)), "meaning_ok": 0.0}, steps=60),
            Level.CRITICAL,
        ),
        Case("hardly righter", _run(0.1), Level.WARN),
        Case("never wholly right, and ever better", rows_of(_partial, steps=60), Level.OK),
        Case("both rise", _run(0.7), Level.OK),
        Case("readable from the start", rows_of(lambda s: {"contract_ok": 1.0, "meaning_ok": coin(s, 0.2)}), Level.OK),
    ),
)
