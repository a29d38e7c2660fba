"""Responses that grow, or shrink, over a run."""

from coevo.diagnostics.behaviour import drift, length_of, success_rose
from coevo.diagnostics.casebook import coin, ramp, rows_of
from coevo.diagnostics.types import Case, Diagnostic, Layer, Level, Levels, Reading
from coevo.evidence.types import Frame

LEVELS = Levels(1.3, 2.0)


def measure(frame: Frame, baseline: Frame | None) -> Reading:
    what, lengths = length_of(frame)
    reading = drift(frame, lengths, what)
    if reading.value is None:
        return reading
    ratio = reading.value
    value = max(ratio, 1 / ratio) if ratio > 0 else None
    rose, success = success_rose(frame)
    note = f"{reading.note}; {success}" if success else reading.note
    if value is not None and rose and value >= LEVELS.critical:
        value, note = (LEVELS.warn + LEVELS.critical) / 2, f"{note}: comes with success, which forgives a level"
    return reading._replace(value=value, note=note)


def _tokens(first: float, last: float):
    return lambda s: {"tokens": int(ramp(s, first, last) * s.rng.lognormal(0, 0.4)), "reward": coin(s, 0.4)}


DIAGNOSTIC = Diagnostic(
    id="length-drift",
    title="Length drift",
    layer=Layer.BEHAVIOUR,
    formula="late / early of the mean response length (tokens; characters where there are none), first against last third of the steps, or its inverse if it "
    "shrank; 1 within chance. Where truth (else reward) rose beyond chance, a critical value is set back to 1.65, a warning",
    source="Dr. GRPO, arXiv 2503.20783; VLM-R1 issue 280",
    needs=("tokens|text.chars", "step"),
    levels=LEVELS,
    measure=measure,
    means="Length is being learned. Under sequence-mean losses long wrong answers are punished less per token, so that wrong answers grow.",
    advice="Normalise the loss by a constant (dr_grpo) or over the batch's tokens; add a small length part to the reward, or bound max_tokens. If it shrinks: "
    "see whether a length penalty pays for giving up.",
    cases=(
        Case("triples while nothing gets better", rows_of(_tokens(200, 600)), Level.CRITICAL),
        Case("grows by a half", rows_of(_tokens(200, 330)), Level.WARN),
        Case("shrinks to a third", rows_of(_tokens(600, 180)), Level.CRITICAL),
        Case("stays", rows_of(_tokens(300, 300)), Level.OK),
        Case("a fifth longer", rows_of(_tokens(300, 330)), Level.OK),
        Case(
            "thinks longer and solves more",
            rows_of(lambda s: {"tokens": int(ramp(s, 200, 700)), "reward": coin(s, ramp(s, 0.2, 0.8))}),
            Level.WARN,
        ),
        Case("a noisy run of few steps", rows_of(_tokens(300, 310), steps=7, groups=1, size=4), Level.OK),
    ),
)
