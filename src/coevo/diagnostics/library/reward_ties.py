"""How often two rollouts of one group earn exactly the same without having solved the task."""

import numpy as np

from coevo.diagnostics.casebook import coin, rows_of
from coevo.diagnostics.course import course_of, groups_of, number, shown, usable
from coevo.diagnostics.signal import late_rows
from coevo.diagnostics.types import Case, Diagnostic, Layer, Level, Levels, Reading
from coevo.evidence.types import Frame

FEW_LEVELS = 12


def measure(frame: Frame, baseline: Frame | None) -> Reading:
    rewards = frame.numbers("reward")
    known = usable(frame, "reward")
    late = late_rows(frame, mask=known)
    if not late.any():
        return Reading(None, "no measured rewards")
    top = float(rewards[known].max())
    if top - float(rewards[known].min()) <= 1e-6 * max(1.0, abs(top)):
        right = frame.numbers("meaning_ok")[late]
        solved = bool(len(right)) and float(np.nan_to_num(right).mean()) > 0.95
        return Reading(
            0.0 if solved else 1.0,
            f"every reward is {number(top)}" + (", and right" if solved else ""),
            int(late.sum()),
        )
    levels, codes = np.unique(np.round(rewards[late], 9), return_inverse=True)
    ids = frame.groups[late]
    sizes = np.bincount(ids)
    pairs = float((sizes * (sizes - 1)).sum()) / 2
    if not pairs:
        return Reading(None, "no group has two measured rewards")
    key = ids * len(levels) + codes
    cells, counts = np.unique(key, return_counts=True)
    solved = levels[cells % len(levels)] >= top - 1e-6 * max(1.0, abs(top))
    ties = counts * (counts - 1) / 2
    share = float(ties[~solved].sum()) / pairs
    frequency = np.bincount(codes) / len(codes)
    common = int(frequency.argmax())
    shape = ", ".join(
        f"{number(float(levels[i]))}: {frequency[i]:.0%}" for i in np.argsort(-frequency, kind="stable")[:4]
    )
    note = f"{share:.0%} of pairs within groups tie below the top; {len(levels)} levels of reward ({shape})"
    groups = groups_of(frame, rewards, known)
    course = course_of(groups.step, groups.dead().astype(float))
    at = np.zeros(frame.rows, dtype=bool)
    at[late] = codes == common
    few = len(levels) <= FEW_LEVELS
    return Reading(
        share if few else min(share, DIAGNOSTIC.levels.critical - 1e-9),
        note,
        int(late.sum()),
        shown(frame, at),
        course.series,
    )


def _levels(*chances: float):
    def make(s):
        return {"reward": float(np.searchsorted(np.cumsum(chances), s.rng.random())) / (len(chances) - 1)}

    return rows_of(make)


DIAGNOSTIC = Diagnostic(
    id="reward-ties",
    title="Ties below the top",
    layer=Layer.SIGNAL,
    formula="share of pairs of one group whose rewards are equal (to nine digits) and under the highest reward of all, last third; critical only with at most 12 levels of reward",
    source="EvoTrainer, arXiv 2606.03108: a middle level that held 57 % of the rollouts made 55 % of groups dead. Levels: ours",
    needs=("reward", "group|task"),
    levels=Levels(0.85, 0.95),
    measure=measure,
    means="The reward knows too few levels where the policy stands: failing a little and failing much earn the same.",
    advice="Add levels where most rollouts are: share of tests passed, a tie-breaking part, or a comparison within the group.",
    cases=(
        Case("one level has all", _levels(0.01, 0.98, 0.01), Level.CRITICAL),
        Case("one level", rows_of(lambda s: {"reward": 0.5}), Level.CRITICAL),
        Case("a crowded middle", _levels(0.03, 0.94, 0.03), Level.WARN),
        Case("a fair coin", _levels(0.5, 0.5), Level.OK),
        Case("solved", _levels(0.05, 0.95), Level.OK),
        Case("continuous", rows_of(lambda s: {"reward": float(s.rng.uniform())}), Level.OK),
        Case("binary, often right", rows_of(lambda s: {"reward": coin(s, 0.6)}), Level.OK),
    ),
)
