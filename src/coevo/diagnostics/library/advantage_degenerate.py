"""Advantages that are none."""

import numpy as np

from coevo.diagnostics.casebook import coin, rows_of
from coevo.diagnostics.course import groups_of, number, usable
from coevo.diagnostics.signal import rows_in
from coevo.diagnostics.types import Case, Diagnostic, Layer, Level, Levels, Reading
from coevo.evidence.types import Frame

HUGE = 10.0
"""A z-score within a group of n is at most (n - 1) / sqrt(n); over 10 takes more than a hundred rollouts."""


def measure(frame: Frame, baseline: Frame | None) -> Reading:
    advantages, rewards = frame.numbers("advantage"), frame.numbers("reward")
    known = usable(frame, "reward") & np.isfinite(advantages)
    r, a = groups_of(frame, rewards, known), groups_of(frame, advantages, known)
    fine = r.n >= 2
    r, a = r.where(fine), a.where(fine)
    if not len(a.n):
        return Reading(None, "no group has two rewards with advantages")
    if np.array_equal(advantages[known], rewards[known]):
        return Reading(0.0, "the advantage is the reward itself (no baseline), as it may be", len(a.n))
    dead = r.dead()
    of_nothing = dead & (np.maximum(np.abs(a.low), np.abs(a.high)) > 1e-9)
    one_sign = ~dead & ((a.low > 1e-9) | (a.high < -1e-9))
    huge = np.maximum(np.abs(a.low), np.abs(a.high)) > HUGE
    none = ~dead & (a.low == 0) & (a.high == 0)
    bad = of_nothing | one_sign | huge
    note = (
        f"of {len(a.n)} groups, {int(of_nothing.sum())} have advantages without a spread of rewards, {int(one_sign.sum())} have one sign for all,"
        f" {int(huge.sum())} have one over {HUGE:g}; {int(none.sum())} with a spread have none; largest: {number(float(max(abs(a.low.min()), abs(a.high.max()))))}"
    )
    return Reading(float(bad.mean()), note, len(a.n), rows_in(frame, a.where(bad)))


def _centred(shift: float = 0.0, factor: float = 1.0):
    def rows():
        made = list(rows_of(lambda s: {"reward": coin(s, 0.5)})())
        groups: dict[str, list[float]] = {}
        for row in made:
            groups.setdefault(row["group"], []).append(row["reward"])
        return [
            {**row, "advantage": factor * (row["reward"] - float(np.mean(groups[row["group"]]))) + shift}
            for row in made
        ]

    return rows


DIAGNOSTIC = Diagnostic(
    id="advantage-degenerate",
    title="Degenerate advantages",
    layer=Layer.SIGNAL,
    formula="share of groups whose advantages are not 0 although rewards have no spread, or all of one sign although they have, or over 10 in magnitude; 0 where advantages are the rewards",
    source="ours; TRL 1.16 gives groups of seven rewards of 0.2 advantages of 1e-3, since their rounded deviation is not 0",
    needs=("advantage", "reward", "group|task"),
    levels=Levels(0.02, 0.3),
    measure=measure,
    means="What is multiplied with the gradient is an artefact: rounding, a lost baseline, a division by nearly nothing.",
    advice="Judge spread by max - min; compute the baseline within the group; bound or drop the z-score of tiny spreads.",
    cases=(
        Case("no baseline left", _centred(shift=2.0), Level.CRITICAL),
        Case("divided by nearly nothing", _centred(factor=1e3), Level.CRITICAL),
        Case(
            "rounding",
            rows_of(
                lambda s: (
                    {"reward": 0.2, "advantage": 1e-3}
                    if s.group == 0 and s.step < 8
                    else {"reward": coin(s, 0.5), "advantage": (s.sample % 2) - 0.5}
                )
            ),
            Level.WARN,
        ),
        Case("centred", _centred(), Level.OK),
        Case("dead and 0", rows_of(lambda s: {"reward": 0.2, "advantage": 0.0}), Level.OK),
        Case("the reward itself", rows_of(lambda s: {"reward": 1.0 + s.sample, "advantage": 1.0 + s.sample}), Level.OK),
    ),
)
