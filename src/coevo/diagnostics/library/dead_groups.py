"""Groups without a spread of rewards: nothing can be learned from them."""

from coevo.diagnostics.casebook import coin, ramp, rows_of
from coevo.diagnostics.course import course_of, groups_of, number, usable
from coevo.diagnostics.signal import late_groups, rows_in
from coevo.diagnostics.types import Case, Diagnostic, Layer, Level, Levels, Reading
from coevo.evidence.types import Frame


def measure(frame: Frame, baseline: Frame | None) -> Reading:
    rewards = frame.numbers("reward")
    groups = groups_of(frame, rewards, usable(frame, "reward"))
    groups = groups.where(groups.n >= 2)
    if not len(groups.n):
        return Reading(None, "no group has two measured rewards")
    late = late_groups(groups)
    dead = late.dead()
    share = float(dead.mean())
    known = late.where(dead).mean
    top, bottom = groups.high.max(), groups.low.min()
    best, least = int((known >= top - 1e-6).sum()), int((known <= bottom + 1e-6).sum())
    course = course_of(groups.step, groups.dead().astype(float))
    note = (
        f"{int(dead.sum())} of the last {len(late.n)} groups have no spread"
        f" ({best} of them at the highest reward, {least} at the lowest); over all: {number(float(groups.dead().mean()))}"
    )
    return Reading(share, note, len(late.n), rows_in(frame, late.where(dead)), course.series)


DIAGNOSTIC = Diagnostic(
    id="dead-groups",
    title="Dead groups",
    layer=Layer.SIGNAL,
    formula="share of groups, of two measured rewards or more, with max(reward) - min(reward) <= 1e-6 * max(1, |reward|); last third of the steps, before any filter",
    source="DAPO, arXiv 2503.14476, section 3.2; a rounded standard deviation misses dead groups of 0.2 or 1/3 (TRL 1.16), so max - min. Levels: docs/diagnose.md",
    needs=("reward", "group|task"),
    levels=Levels(0.5, 0.85),
    measure=measure,
    means="Most groups carry no gradient: all of their rollouts earned the same.",
    advice="Look at which end they are: solved (harder or fewer tasks), hopeless (easier tasks, a reward with a first step), or a reward with too few levels. Larger groups help where success is rare.",
    cases=(
        Case("all rewards alike", rows_of(lambda s: {"reward": 0.2}), Level.CRITICAL),
        Case("dying", rows_of(lambda s: {"reward": coin(s, ramp(s, 0.4, -0.2))}), Level.CRITICAL),
        Case("a fair coin", rows_of(lambda s: {"reward": coin(s, 0.5)}), Level.OK),
        Case("dead early, alive late", rows_of(lambda s: {"reward": coin(s, ramp(s, 0.0, 0.6))}), Level.OK),
        Case("a tiny spread is one", rows_of(lambda s: {"reward": 1e-4 * s.sample}), Level.OK),
        Case("groups of one", rows_of(lambda s: {"reward": 1.0}, size=1), Level.UNKNOWN),
    ),
)
