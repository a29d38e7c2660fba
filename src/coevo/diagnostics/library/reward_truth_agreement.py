"""Within a group, whether the better paid rollouts are the better ones."""

import math

import numpy as np

from coevo.diagnostics.casebook import coin, rows_of
from coevo.diagnostics.course import number, within, worst
from coevo.diagnostics.signal import late_rows
from coevo.diagnostics.types import Case, Diagnostic, Layer, Level, Levels, Reading
from coevo.evidence.types import Frame

FEWEST = 30
"""Rollouts with a spread of both that a correlation takes."""


def measure(frame: Frame, baseline: Frame | None) -> Reading:
    reward, truth = frame.numbers("reward"), frame.numbers("truth")
    known = np.isfinite(reward) & np.isfinite(truth)
    known = late_rows(frame, mask=known)
    r, t = within(frame, reward, known), within(frame, truth, known)
    live = known & (np.abs(r) > 1e-9)
    n = int(live.sum())
    if n < FEWEST or float(np.std(t[live])) < 1e-9:
        return Reading(None, f"{n} late rollouts in groups where both rewards and truths differ; it takes {FEWEST}", n)
    value = float((r[live] * t[live]).sum() / math.sqrt((r[live] ** 2).sum() * (t[live] ** 2).sum()))
    # The upper end: a level is passed only by what is surely under it.
    upper = math.tanh(math.atanh(max(-1 + 1e-12, min(value, 1 - 1e-12))) + 1.96 / math.sqrt(n - 3))
    against = live & (r > 0) & (t < 0)
    note = (
        f"correlation {number(value)} of reward and truth within groups (at most {number(upper)}); "
        f"{number(float(against.sum() / max(1, (live & (r > 0)).sum())))} of the better paid rollouts are worse than their group"
    )
    return Reading(upper, note, n, worst(frame, r - t, against))


def _paid(agree: float):
    def make(s):
        right = coin(s, 0.5)
        return {"truth": right, "reward": right if coin(s, agree) else 1 - right}

    return rows_of(make)


DIAGNOSTIC = Diagnostic(
    id="reward-truth-agreement",
    title="Reward and truth within a group",
    layer=Layer.SCORE,
    formula="correlation of (reward - its group's mean) with (truth - its group's mean) over rollouts with an advantage, last third; upper end of the 95 % interval",
    source="ours: the sign of a group-relative gradient on truth is the sign of this covariance",
    needs=("reward", "truth", "group|task"),
    levels=Levels(0.3, 0.0),
    measure=measure,
    means="Training pushes towards what is paid, and that is hardly (critical: not at all) what is right.",
    advice="Compare the rollouts shown with better ones of their groups: what earns more there? Take that out of the reward.",
    cases=(
        Case("pays for the wrong ones", _paid(0.3), Level.CRITICAL),
        Case(
            "pays at random", rows_of(lambda s: {"reward": coin(s, 0.5), "truth": coin(s, 0.5)}, groups=16), Level.WARN
        ),
        Case("a noisy, honest judge", _paid(0.85), Level.OK),
        Case("no spread of truth", rows_of(lambda s: {"reward": coin(s, 0.5), "truth": 1.0}), Level.UNKNOWN),
    ),
)
