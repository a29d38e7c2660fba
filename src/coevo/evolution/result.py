"""What a search tells its caller: progress while it runs, a result when it ends. Plain values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from coevo.evolution.records import Candidate, Summary
from coevo.programs import Program
from coevo.runs.ledger import Ledger


class Stop(StrEnum):
    """Why a search ended."""

    STEPS = "steps"
    """All steps asked for were made."""
    BUDGET = "budget"
    """The budget allows no further step."""
    TARGET = "target"
    """The target was reached."""
    STALL = "stall"
    """Too many steps in a row brought nothing new to evaluate."""
    INTERRUPTED = "interrupted"
    """A signal, or a file `stop` in the run folder. What was in flight was finished and saved."""
    MODEL_DOWN = "model_down"
    """The model gave no replies. An error: the search did not do what was asked."""
    MACHINE = "machine"
    """Programs could not be measured. An error, too."""

    @property
    def exit_code(self) -> int:
        """Of a command whose search ended so: 1 where it could not do what was asked, else 0. A spent budget is the usual end; one
        that bought nothing is 3 (`SearchResult.exit_code`)."""
        return 1 if self in (Stop.MODEL_DOWN, Stop.MACHINE) else 0


@dataclass(frozen=True)
class Progress:
    """One committed step, for whoever watches."""

    candidate: Candidate
    improved: bool
    """It is the best so far."""
    best_fitness: float | None
    best_score: float | None
    commits: int
    in_flight: int
    population: int
    ledger: Ledger = field(repr=False)

    @property
    def spent(self) -> dict[str, float]:
        """What the run has spent so far, by budget dimension."""
        return self.ledger.spent()


Observer = Callable[[Progress], None]
"""Called on the driver after each commit. One that raises is dropped with a warning; it cannot fail a search."""


@dataclass(frozen=True)
class Verified:
    """Best program and start program, judged again on hidden tests with one fresh seed: a paired gain."""

    program: str
    start: str
    seed: int
    best_hidden: Summary
    start_hidden: Summary
    search: Summary
    """What the search had seen of the best program, on public tests."""
    remeasured: Mapping[str, float | None] = field(default_factory=dict)
    """Where fitness is timed: fresh public fitness of the leaders, by program id."""

    @property
    def gain(self) -> float | None:
        """Verified fitness of the best minus that of the start; None when either is unmeasured."""
        if self.best_hidden.fitness is None or self.start_hidden.fitness is None:
            return None
        return self.best_hidden.fitness - self.start_hidden.fitness

    def to_dict(self) -> dict[str, Any]:
        return {
            "program": self.program,
            "start": self.start,
            "seed": self.seed,
            "best_hidden": self.best_hidden.to_dict(),
            "start_hidden": self.start_hidden.to_dict(),
            "search": self.search.to_dict(),
            "remeasured": dict(self.remeasured),
        }

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> Verified:
        parts = {name: Summary.from_dict(row[name]) for name in ("best_hidden", "start_hidden", "search")}
        return cls(row["program"], row["start"], row["seed"], **parts, remeasured=dict(row["remeasured"]))


@dataclass(frozen=True)
class SearchResult:
    """How a search ended and what it found."""

    stop: Stop
    message: str
    """For a person: why it ended, with the cause where something failed."""
    steps: int
    """Committed, the start included."""
    evaluated: int
    """Different programs measured."""
    start: Summary | None
    best_program: Program | None
    best_step: int | None
    best: Summary | None
    verified: Verified | None
    spent: Mapping[str, float]
    proposers: Mapping[str, Mapping[str, float]]
    """What the bandit learnt, by proposer."""

    @property
    def exit_code(self) -> int:
        """For the command line: 0 fine, 1 error, 3 when the budget bought not one evaluation."""
        return 3 if self.stop is Stop.BUDGET and self.evaluated == 0 else self.stop.exit_code
