"""Groups in which no rollout gets anywhere."""

from coevo.diagnostics.casebook import coin, rows_of
from coevo.diagnostics.signal import ends
from coevo.diagnostics.types import Case, Diagnostic, Layer, Level, Levels, Reading
from coevo.evidence.types import Frame


def measure(frame: Frame, baseline: Frame | None) -> Reading:
    return ends(frame, top=False)


DIAGNOSTIC = Diagnostic(
    id="hopeless-groups",
    title="Groups in which all fail",
    layer=Layer.SIGNAL,
    formula="share of groups, last third, of two measured rewards or more, that are dead at the lowest reward of all, with no rollout right",
    source="DAPO, arXiv 2503.14476: accuracy 0 gives no gradient. Levels: ours",
    needs=("reward", "group|task"),
    levels=Levels(0.5, 0.8),
    measure=measure,
    means="Most tasks are out of reach: nothing that is tried earns more than anything else.",
    advice="Easier tasks first, larger groups, a part of the reward that pays the first step, or worked examples.",
    cases=(
        Case("all fail", rows_of(lambda s: {"reward": coin(s, 0.01)}), Level.CRITICAL),
        Case("most fail", rows_of(lambda s: {"reward": coin(s, 0.05)}), Level.WARN),
        Case("a fair coin", rows_of(lambda s: {"reward": coin(s, 0.5)}), Level.OK),
        Case("all solved", rows_of(lambda s: {"reward": coin(s, 0.99)}), Level.OK),
    ),
)
