"""Programs and what is known of them, read from the run when they are needed: a search never holds its sources."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any

from coevo.evaluation.types import Evaluation, Failure, Outcome, TestResult
from coevo.evolution.records import Summary
from coevo.evolution.types import Attempt
from coevo.programs import Program
from coevo.runs import Run

KEPT = 256
"""Attempts held in memory."""

_FIELDS = tuple(f.name for f in fields(Evaluation))
_SHOWN = ("fitness", "correctness", "efficiency", "speedup", "score", "feedback")


def payload(evaluation: Evaluation) -> dict[str, Any]:
    """All of an evaluation, for `run.put_evaluation`."""
    return {name: getattr(evaluation, name) for name in _FIELDS}


def restored(row: Mapping[str, Any]) -> Evaluation:
    """What `payload` described, back from the run."""
    known = {name: row[name] for name in _FIELDS if name in row}
    known["outcome"] = Outcome(known["outcome"])
    known["failure"] = Failure(known["failure"]) if known.get("failure") else None
    known["tests"] = tuple(TestResult(**test) for test in known.get("tests", ()))
    return Evaluation(**known)


class Shelf:
    """Attempts by program id, the most recent ones at hand."""

    def __init__(self, run: Run, *, seed: int) -> None:
        self._run, self._seed = run, seed
        self._kept: OrderedDict[str, Attempt] = OrderedDict()

    def remember(self, program: Program, evaluation: Evaluation) -> None:
        """Keep what was just stored at hand, under the program's id."""
        self._keep(program.id, Attempt(program, *(getattr(evaluation, name) for name in _SHOWN)))

    def attempt(self, program_id: str) -> Attempt:
        """A stored program with its public evaluation (without one: fitness None)."""
        found = self._kept.get(program_id)
        if found is not None:
            self._kept.move_to_end(program_id)
            return found
        row = self._run.evaluation(program_id, split="public", seed=self._seed) or {"fitness": None}
        found = Attempt(self._run.program(program_id), **{name: row[name] for name in _SHOWN if name in row})
        self._keep(program_id, found)
        return found

    def attempts(self, ids: Iterable[str]) -> tuple[Attempt, ...]:
        """In the order given."""
        return tuple(self.attempt(program_id) for program_id in ids)

    def worst_first(self, ids: Iterable[str]) -> tuple[Attempt, ...]:
        """By fitness; unmeasured ones first."""
        return tuple(sorted(self.attempts(ids), key=lambda a: (a.fitness is not None, a.fitness or 0.0)))

    def summary(self, program_id: str) -> Summary | None:
        """What the search steers by, from the stored evaluation; None if there is none."""
        row = self._run.evaluation(program_id, split="public", seed=self._seed)
        return Summary.from_dict({**row, "reason": row.get("reason", "")[:200]}) if row else None

    def _keep(self, program_id: str, attempt: Attempt) -> None:
        self._kept[program_id] = attempt
        self._kept.move_to_end(program_id)
        if len(self._kept) > KEPT:
            self._kept.popitem(last=False)
