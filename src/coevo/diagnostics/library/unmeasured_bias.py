"""Whether what is lost depends on how well a group does."""

import math

import numpy as np

from coevo.diagnostics.casebook import coin, rows_of
from coevo.diagnostics.course import groups_of, number, usable
from coevo.diagnostics.signal import lost_rows
from coevo.diagnostics.types import Case, Diagnostic, Layer, Level, Levels, Reading
from coevo.evidence.types import Frame

FEWEST = 20
"""Groups, and lost rollouts, that a correlation takes."""


def measure(frame: Frame, baseline: Frame | None) -> Reading:
    lost = lost_rows(frame)
    share = groups_of(frame, lost.astype(float))
    rewards = groups_of(frame, frame.numbers("reward"), usable(frame, "reward") & ~lost)
    lost_share = share.mean[np.searchsorted(share.ids, rewards.ids)]
    if lost.sum() < FEWEST or len(rewards.n) < FEWEST:
        return Reading(0.0, f"{int(lost.sum())} rollouts were lost: too few to bias anything", len(rewards.n))
    if rewards.mean.std() == 0 or lost_share.std() == 0:
        return Reading(0.0, "all groups do equally well, or lose equally many", len(rewards.n))
    r = float(np.corrcoef(lost_share, rewards.mean)[0, 1])
    # The end of Fisher's interval that is nearer to 0, at 3.3 standard errors: one false alarm in a thousand runs.
    sure = max(0.0, math.tanh(max(0.0, math.atanh(min(abs(r), 1 - 1e-12)) - 3.3 / math.sqrt(len(rewards.n) - 3))))
    side = "better" if r > 0 else "worse"
    note = f"correlation {number(r)} of a group's lost share with the mean reward of the rest (at least {number(sure)} for sure)"
    if sure:
        note += f": groups that do {side} lose more"
    order = np.argsort(-lost_share, kind="stable")[:5]
    return Reading(sure, note, len(rewards.n), tuple(frame.number_of(int(i)) for i in rewards.first[order]))


def _lost(chance):
    def make(s):
        skill = 0.2 + 0.2 * s.group
        return (
            {"reward": None, "unmeasured_reason": "timeout"} if coin(s, chance(skill)) else {"reward": coin(s, skill)}
        )

    return rows_of(make, size=16, steps=60)


DIAGNOSTIC = Diagnostic(
    id="unmeasured-bias",
    title="Losses that are not random",
    layer=Layer.MEASUREMENT,
    formula="correlation, over groups, of the unmeasured share with the mean reward of the measured rest; |r| less 3.3 standard errors (Fisher's z)",
    source="ours; missing not at random (Rubin 1976, Biometrika 63(3))",
    needs=("unmeasured_reason", "reward", "group|task"),
    levels=Levels(0.1, 0.3),
    measure=measure,
    means="Rollouts are lost more often where the policy does well (or badly), so every mean is of a biased choice.",
    advice="Find what the lost ones share: long replies against a timeout, one task's tests, memory. Compare runs only after that is mended.",
    cases=(
        Case("hard groups are lost", _lost(lambda skill: 0.9 * (1 - skill)), Level.CRITICAL),
        Case("lost at random", _lost(lambda skill: 0.2), Level.OK),
        Case("nothing lost", _lost(lambda skill: 0.0), Level.OK),
    ),
)
