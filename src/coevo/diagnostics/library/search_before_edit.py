"""Whether it looks before it edits."""

import numpy as np

from coevo.diagnostics.behaviour import share
from coevo.diagnostics.casebook import coin, ramp, rows_of
from coevo.diagnostics.types import Case, Diagnostic, Layer, Level, Levels, Reading
from coevo.evidence.types import Frame


def measure(frame: Frame, baseline: Frame | None) -> Reading:
    several = (frame.numbers("tool_calls") > 0) | (frame.numbers("turns") > 1)
    looked = np.where(several, frame.numbers("text.search_first"), np.nan)
    if not np.isfinite(looked).any():
        return Reading(None, "no episode of several turns or tool calls edits a file")
    reading = share(frame, 1 - looked, "edit before anything was searched or read")
    return reading._replace(value=None if reading.value is None else 1 - reading.value)


_SEARCH = "$ grep -rn 'def total' src/\nsrc/a.py:3:def total(xs):\n"
_EDIT = "$ sed -i 's/max/min/' src/a.py\n"


def _agent(first: float, last: float):
    def row(s):
        looks = coin(s, ramp(s, first, last))
        text = f"{_SEARCH}{_EDIT}" if looks else f"{_EDIT}$ grep -rn min src/\n"
        return {"response": text, "turns": 3, "tool_calls": 2, "reward": 0.0}

    return row


def _single(s):
    edit = "<<<<<<< SEARCH\nx = 1\n=======\nx = 2\n>>>>>>> REPLACE"
    return {"response": edit, "turns": 1, "tool_calls": 0, "reward": 0.0}


DIAGNOSTIC = Diagnostic(
    id="search-before-edit",
    title="Search before edit",
    layer=Layer.BEHAVIOUR,
    formula="share of late episodes (of several turns or with tool calls) with an edit in which something was searched or read before the first one",
    source="EvoTrainer, arXiv 2606.03108 (search before edit, SBE)",
    needs=("text.search_first", "turns|tool_calls"),
    levels=Levels(0.6, 0.3),
    measure=measure,
    means="It edits what it has not read.",
    advice="See what the reward pays for early edits. A small bonus for searching first lives on ties only: once all do it, whitening within groups removes it.",
    cases=(
        Case("edits blindly in the end", rows_of(_agent(0.9, 0.0), steps=12), Level.CRITICAL),
        Case("half look first", rows_of(_agent(0.45, 0.45), steps=20), Level.WARN),
        Case("nearly all look first", rows_of(_agent(0.9, 0.95), steps=12), Level.OK),
        Case("single edits of a program that the prompt shows", rows_of(_single, steps=8), Level.UNKNOWN),
    ),
)
