"""How much of what is compared within groups comes from parts that do not go with the truth."""

import math

import numpy as np

from coevo.diagnostics.casebook import coin, rows_of
from coevo.diagnostics.course import number, within, worst
from coevo.diagnostics.signal import late_rows
from coevo.diagnostics.types import Case, Diagnostic, Layer, Level, Levels, Reading
from coevo.evidence.types import Frame

FEWEST = 60
FAITHFUL = 0.1
"""Correlation with the truth, within groups, that a part must surely not reach to be called unfaithful."""


def measure(frame: Frame, baseline: Frame | None) -> Reading:
    truth, reward = frame.numbers("truth"), frame.numbers("reward")
    late = late_rows(frame, mask=np.isfinite(truth) & np.isfinite(reward))
    t, r = within(frame, truth, late)[late], within(frame, reward, late)[late]
    if len(t) < FEWEST or t.std() < 1e-9 or r.std() < 1e-9:
        return Reading(
            None,
            f"{len(t)} late rollouts with reward and truth, both with a spread in groups; it takes {FEWEST}",
            len(t),
        )
    shares, notes, blame = 0.0, [], np.zeros(frame.rows)
    for name in frame.parts:
        values = np.nan_to_num(frame.numbers(f"parts.{name}"))
        p = within(frame, values, late)[late]
        share = float((p * r).sum() / (r * r).sum())
        if p.std() < 1e-9:
            continue
        agreement = float((p * t).sum() / math.sqrt((p * p).sum() * (t * t).sum()))
        notes.append(f"{name}: {number(share)} of the variance, correlation with truth {number(agreement)}")
        if agreement + 1.96 / math.sqrt(len(t)) < FAITHFUL:
            shares += max(0.0, share)
            blame[late] += p
    rows = worst(frame, blame, late & (blame > 0)) if shares else ()
    return Reading(shares, "; ".join(notes)[:300], len(t), rows)


def _run(weight: float):
    def make(s):
        right, bonus = coin(s, 0.5), weight * coin(s, 0.5)
        return {"truth": right, "reward": right + bonus, "parts": {"tests": right, "bonus": bonus}}

    return rows_of(make, steps=60, groups=8)


DIAGNOSTIC = Diagnostic(
    id="unfaithful-part",
    title="Parts that pay for something else",
    layer=Layer.SCORE,
    formula="sum over parts that surely correlate under 0.1 with truth within groups of cov(part, reward) / var(reward), within groups, last third",
    source="ours: the covariance shares of a sum's variance",
    needs=("parts", "reward", "truth", "group|task"),
    levels=Levels(0.4, 0.7),
    measure=measure,
    means="Much of the advantage comes from a part of the reward that has nothing to do with being right.",
    advice="Lower that part's weight, or pay it only where the task is solved.",
    cases=(
        Case("a bonus that outweighs", _run(2.0), Level.CRITICAL),
        Case("a bonus as large as the task", _run(1.0), Level.WARN),
        Case("a small bonus", _run(0.2), Level.OK),
    ),
)
