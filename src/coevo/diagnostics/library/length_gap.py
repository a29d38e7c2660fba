"""Wrong answers that are much longer than right ones."""

from coevo.diagnostics.behaviour import failed_to_passed, length_of
from coevo.diagnostics.casebook import coin, rows_of
from coevo.diagnostics.course import number, unknown, worst
from coevo.diagnostics.types import Case, Diagnostic, Layer, Level, Levels, Reading
from coevo.evidence.types import Frame

FEW = 10


def measure(frame: Frame, baseline: Frame | None) -> Reading:
    what, lengths = length_of(frame)
    ratio, groups, failed = failed_to_passed(frame, lengths)
    if groups < FEW:
        return unknown(f"{groups} late groups hold right and wrong answers; it takes {FEW}", groups)
    note = f"in {groups:,} late groups with both, wrong answers have {number(ratio)} times the {what} of right ones"
    return Reading(ratio, note, groups, worst(frame, lengths, failed))


def _lengths(wrong: float):
    def row(s):
        reward = coin(s, 0.5)
        return {"reward": reward, "tokens": int(200 * (1 if reward else wrong) * s.rng.lognormal(0, 0.3)) + 1}

    return row


DIAGNOSTIC = Diagnostic(
    id="length-gap",
    title="Wrong answers are longer",
    layer=Layer.BEHAVIOUR,
    formula="geometric mean, over late groups that hold both, of (length of failed) / (length of passed) rollouts of the same group",
    source="Dr. GRPO, arXiv 2503.20783 (lengths of right and wrong answers)",
    needs=("tokens|text.chars", "reward|truth|meaning_ok"),
    levels=Levels(1.5, 2.5),
    measure=measure,
    means="The policy talks on where it fails: it wanders, loops, or was taught that a long wrong answer costs less.",
    advice="Look at the longest failures. Normalise the loss by a constant rather than by each answer's length; lower max_tokens to what right answers take.",
    cases=(
        Case("failures are three times as long", rows_of(_lengths(3.2)), Level.CRITICAL),
        Case("failures are twice as long", rows_of(_lengths(2.0)), Level.WARN),
        Case("a little longer, as hard answers are", rows_of(_lengths(1.2)), Level.OK),
        Case("shorter: gives up early", rows_of(_lengths(0.6)), Level.OK),
        Case(
            "hard tasks take longer, right or wrong",
            rows_of(
                lambda s: {
                    "reward": coin(s, 0.9 - 0.25 * s.group),
                    "tokens": int(100 * (1 + s.group) * s.rng.lognormal(0, 0.2)),
                }
            ),
            Level.OK,
        ),
        Case("never right", rows_of(lambda s: {"reward": 0.0, "tokens": 100}), Level.UNKNOWN),
    ),
)
