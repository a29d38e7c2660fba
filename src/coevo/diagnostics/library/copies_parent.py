"""Responses that hand back a program of the prompt."""

from coevo.diagnostics.behaviour import share
from coevo.diagnostics.casebook import coin, ramp, rows_of
from coevo.diagnostics.prose import fenced, program, words
from coevo.diagnostics.types import Case, Diagnostic, Layer, Level, Levels, Reading
from coevo.evidence.types import Frame


def measure(frame: Frame, baseline: Frame | None) -> Reading:
    told = frame.numbers("copy" if frame.has("copy") else "text.copies_parent")
    return share(frame, told, "give a program of the prompt back unchanged")


def _copying(first: float, last: float):
    def row(s):
        parent = "def solve(xs):\n    total = 0\n    for x in xs:\n        total += x\n    return total"
        child = f"# improved\n{parent}" if coin(s, ramp(s, first, last)) else program(s)
        return {
            "prompt": f"Improve this.\n\n{fenced(parent)}\n",
            "response": f"{words(s, 10)}\n{fenced(child)}",
            "reward": 0.0,
        }

    return row


def _empty_edit(s):
    edit = "<<<<<<< SEARCH\n    return total\n=======\n    return total\n>>>>>>> REPLACE"
    return {"prompt": f"Improve this.\n{fenced('def f():    return total')}", "response": edit, "reward": 0.0}


def _write(s):
    return {"prompt": "Write a program that adds.", "response": fenced(program(s)), "reward": 0.0}


DIAGNOSTIC = Diagnostic(
    id="copies-of-parent",
    title="Copies of the parent",
    layer=Layer.BEHAVIOUR,
    formula="share of late rollouts whose program has the normal form (comments and layout do not count) of a program that the prompt shows, or whose edits change nothing",
    source="ThetaEvolve, arXiv 2511.23473 (lazy penalty); MetaEvolve's reward, arXiv 2607.21971, charges 1 for a worse child and 0 for a tie",
    needs=("copy|text.copies_parent",),
    levels=Levels(0.1, 0.3),
    measure=measure,
    means="Doing nothing has become the safe answer.",
    advice="Give copies no credit (reward lazy), or charge less for a failed try; filter groups that consist of copies.",
    cases=(
        Case("half hand it back", rows_of(_copying(0.1, 0.6), steps=12), Level.CRITICAL),
        Case("some do", rows_of(_copying(0.18, 0.18), steps=12), Level.WARN),
        Case("edits that change nothing", rows_of(_empty_edit, steps=8), Level.CRITICAL),
        Case("new programs", rows_of(_copying(0.0, 0.0), steps=12), Level.OK),
        Case("a copy now and then", rows_of(_copying(0.03, 0.03), steps=12), Level.OK),
        Case("prompts without a program", rows_of(_write, steps=8), Level.UNKNOWN),
    ),
)
