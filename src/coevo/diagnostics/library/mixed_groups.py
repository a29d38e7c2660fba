"""Groups that compare rollouts of different tasks."""

import numpy as np

from coevo.diagnostics.casebook import coin, rows_of
from coevo.diagnostics.course import groups_of
from coevo.diagnostics.signal import rows_in
from coevo.diagnostics.types import Case, Diagnostic, Layer, Level, Levels, Reading
from coevo.evidence.types import Frame


def measure(frame: Frame, baseline: Frame | None) -> Reading:
    codes = frame.words("task").codes
    groups = groups_of(frame, np.where(codes >= 0, codes, np.nan).astype(float))
    if not len(groups.n):
        return Reading(None, "no group has a task")
    mixed = groups.spread > 0
    note = f"{int(mixed.sum())} of {len(groups.n)} groups hold rollouts of different tasks"
    return Reading(float(mixed.mean()), note, len(groups.n), rows_in(frame, groups.where(mixed)))


DIAGNOSTIC = Diagnostic(
    id="mixed-groups",
    title="Groups of different prompts",
    layer=Layer.SIGNAL,
    formula="share of groups with more than one task",
    source="ours; distinct prompts in one group: prime-rl#600",
    needs=("group", "task"),
    levels=Levels(0.001, 0.05),
    measure=measure,
    means="The baseline compares easy prompts with hard ones: the policy is paid for the luck of the draw.",
    advice="One prompt per group; check the sampler and how group names are made.",
    cases=(
        Case("shuffled", rows_of(lambda s: {"reward": coin(s, 0.5), "task": f"t{s.sample}"}), Level.CRITICAL),
        Case("one prompt each", rows_of(lambda s: {"reward": coin(s, 0.5)}), Level.OK),
    ),
)
