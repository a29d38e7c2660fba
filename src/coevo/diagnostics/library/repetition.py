"""Responses that say the same thing over and over."""

import numpy as np

from coevo.diagnostics.behaviour import share
from coevo.diagnostics.casebook import coin, rows_of
from coevo.diagnostics.prose import fenced, reply, words
from coevo.diagnostics.types import Case, Diagnostic, Layer, Level, Levels, Reading
from coevo.evidence.types import Frame

LOOPS = 0.5
PACKS = 0.1


def measure(frame: Frame, baseline: Frame | None) -> Reading:
    repeated, packed = frame.numbers("text.repetition"), frame.numbers("text.compress")
    known = np.isfinite(repeated) | np.isfinite(packed)
    loops = (repeated >= LOOPS) | (packed <= PACKS)
    return share(frame, np.where(known, loops.astype(float), np.nan), "repeat themselves")


def _looping(chance: float):
    def row(s):
        text = " ".join([words(s, 6)] * 30) if coin(s, chance * s.progress) else reply(s)
        return {"response": text, "reward": coin(s, 0.4)}

    return row


def _table(s):
    lines = "\n".join(f"    ({i}, {i * i}, {i * 7 % 13})," for i in range(40))
    return {
        "response": fenced(f"TABLE = [\n{lines}\n]\n\ndef solve(x):\n    return TABLE[x % {s.group + 3}][1]"),
        "reward": 1.0,
    }


DIAGNOSTIC = Diagnostic(
    id="repetition",
    title="Repetition",
    layer=Layer.BEHAVIOUR,
    formula="share of late rollouts in which half or more of the 4-grams of words occurred before, or whose end packs to a tenth of its size (loops of characters)",
    source="slime's repetition_frac; RAGEN, arXiv 2504.20073 (echo trap); OpenRLHF issue 1120",
    needs=("text.repetition|text.compress",),
    levels=Levels(0.05, 0.2),
    measure=measure,
    means="The sampler is caught in loops: the distribution is degenerating, mostly after too large a step or too long a run without KL.",
    advice="Go back to a checkpoint before it began; lower the learning rate, add a little KL. Cut loops off early rather than sampling them to the end.",
    cases=(
        Case("half loop in the end", rows_of(_looping(0.7), steps=12), Level.CRITICAL),
        Case("some loop", rows_of(_looping(0.12), steps=18), Level.WARN),
        Case(
            "one character for ever",
            rows_of(lambda s: {"response": "!" * 600 if coin(s, 0.5) else reply(s), "reward": 0.0}, steps=8),
            Level.CRITICAL,
        ),
        Case("plain prose and programs", rows_of(_looping(0.0), steps=12), Level.OK),
        Case("a table of numbers in a program", rows_of(_table, steps=8), Level.OK),
        Case("very short answers", rows_of(lambda s: {"response": "no no no", "reward": 0.0}, steps=8), Level.UNKNOWN),
    ),
)
