"""Groups that all of their rollouts solve."""

from coevo.diagnostics.casebook import coin, ramp, rows_of
from coevo.diagnostics.signal import ends
from coevo.diagnostics.types import Case, Diagnostic, Layer, Level, Levels, Reading
from coevo.evidence.types import Frame


def measure(frame: Frame, baseline: Frame | None) -> Reading:
    return ends(frame, top=True)


DIAGNOSTIC = Diagnostic(
    id="solved-groups",
    title="Groups solved by all",
    layer=Layer.SIGNAL,
    formula="share of groups, last third, of two measured rewards or more, that are dead with every rollout right (meaning_ok; without that column: at the highest reward of all, where rewards differ)",
    source="difficulty pools of prime-rl; DAPO, arXiv 2503.14476: accuracy 1 gives no gradient. Levels: ours",
    needs=("reward", "group|task"),
    levels=Levels(0.5, 0.8),
    measure=measure,
    means="The curriculum is exhausted: most of what is sampled is known already.",
    advice="Harder tasks, or leave the solved ones out; the last checkpoint may be as good as it gets on these.",
    cases=(
        Case("all solved", rows_of(lambda s: {"reward": coin(s, ramp(s, 0.4, 1.5))}), Level.CRITICAL),
        Case("half solved", rows_of(lambda s: {"reward": 1.0 if s.group < 2 else coin(s, 0.5)}), Level.WARN),
        Case("a fair coin", rows_of(lambda s: {"reward": coin(s, 0.5)}), Level.OK),
        Case("all fail", rows_of(lambda s: {"reward": coin(s, 0.01)}), Level.OK),
        Case("one reward for all", rows_of(lambda s: {"reward": 0.5}), Level.UNKNOWN),
    ),
)
