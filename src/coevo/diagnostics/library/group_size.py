"""How many measured rollouts a group really has."""

import numpy as np

from coevo.diagnostics.casebook import coin, rows_of
from coevo.diagnostics.course import course_of, groups_of, number, usable
from coevo.diagnostics.signal import rows_in
from coevo.diagnostics.types import Case, Diagnostic, Layer, Level, Levels, Reading
from coevo.evidence.types import Frame


def measure(frame: Frame, baseline: Frame | None) -> Reading:
    rewards = frame.numbers("reward")
    groups = groups_of(frame, rewards, usable(frame, "reward"))
    if not len(groups.n):
        return Reading(0.0, "no group has a measured reward")
    rate = float(np.clip(_passing(rewards[np.isfinite(rewards)]), 1e-6, 1 - 1e-6))
    size = float(np.median(groups.n))
    lost = rate**size + (1 - rate) ** size
    note = (
        f"{number(size)} measured rollouts in the median group, {int(groups.n.min())} in the smallest;"
        f" at a success rate of {number(rate)}, {lost:.0%} of groups of that size would be dead by chance alone"
    )
    small = groups.where(groups.n < 4)
    return Reading(
        size, note, len(groups.n), rows_in(frame, small), course_of(groups.step, groups.n.astype(float)).series
    )


def _passing(rewards: np.ndarray) -> float:
    """Share of rewards over the middle of their range: successes, for two levels."""
    return float((rewards > (rewards.max() + rewards.min()) / 2).mean())


DIAGNOSTIC = Diagnostic(
    id="group-size",
    title="Effective group size",
    layer=Layer.SIGNAL,
    formula="median number of measured rewards of a group; note: p^G + (1 - p)^G, the chance of a dead group of binary rewards",
    source="P(dead) for a success rate of 1/4: 0.32 with 4 rollouts, 0.10 with 8",
    needs=("reward", "group"),
    levels=Levels(3.5, 1.5),
    measure=measure,
    means="So few rollouts share a baseline that it is mostly noise, and many groups are dead by chance.",
    advice="Sample more per prompt, and fewer prompts; check that group names are per prompt and step, and that few rollouts are lost.",
    cases=(
        Case("alone", rows_of(lambda s: {"reward": coin(s, 0.5)}, size=1), Level.CRITICAL),
        Case("three", rows_of(lambda s: {"reward": coin(s, 0.5)}, size=3), Level.WARN),
        Case("eight", rows_of(lambda s: {"reward": coin(s, 0.5)}), Level.OK),
        Case(
            "most of eight are lost",
            rows_of(lambda s: {"reward": None, "unmeasured_reason": "x"} if s.sample > 2 else {"reward": coin(s, 0.5)}),
            Level.WARN,
        ),
    ),
)
