"""What every trainer tells its caller: progress while it trains, a result when it ends. Plain values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any


class StoppedBy(StrEnum):
    """Why a training run ended."""

    STEPS = "steps"
    """All steps of the recipe were made."""
    BUDGET = "budget"
    """The budget allows no further step."""
    PATIENCE = "patience"
    """Evaluations brought nothing better for as long as `evaluate.patience` allows."""
    MAX_KL = "max_kl"
    """The policy went further from its reference than `max_kl`."""
    INTERRUPTED = "interrupted"
    """A signal, or a file `stop` in the run folder. The step in flight was finished and saved."""
    FAILED = "failed"
    """The trainer could not go on (a user's command that failed, say). An error."""

    @property
    def reached(self) -> bool:
        """Whether the recipe itself asks for this end; nothing is left for `coevo resume`."""
        return self in (StoppedBy.STEPS, StoppedBy.PATIENCE, StoppedBy.MAX_KL)

    @property
    def exit_code(self) -> int:
        """Of a command whose training ended so; a budget that bought no step is 3 (`TrainResult.exit_code`)."""
        return 1 if self is StoppedBy.FAILED else 0


@dataclass(frozen=True)
class TrainResult:
    """How a training run ended and what it left."""

    steps: int
    """Steps behind the weights, over all resumes; of a branch, those of its ancestors counted."""
    stopped_by: StoppedBy
    message: str = ""
    """For a person: why it ended."""
    last: Path | None = None
    """The newest checkpoint: a Hugging Face folder."""
    best: Path | None = None
    """The best one by evaluation; None where nothing was evaluated."""
    metrics: Mapping[str, Any] = field(default_factory=dict)
    """Of the whole run, by name: `reward_first`, `reward_last`, `truth_first`, ... (docs/training.md)."""
    spent: Mapping[str, float] = field(default_factory=dict)
    """By budget dimension."""
    notes: tuple[str, ...] = ()
    """What a person should know: a damaged checkpoint that was passed over, steps that were skipped."""

    @property
    def exit_code(self) -> int:
        """For the command line: 0 fine, 1 error, 3 when the budget bought not one step."""
        return 3 if self.stopped_by is StoppedBy.BUDGET and self.steps == 0 else self.stopped_by.exit_code


@dataclass(frozen=True)
class TrainProgress:
    """One committed step, for whoever watches."""

    step: int
    steps: int
    """Of the recipe."""
    metrics: Mapping[str, float]
    """By name, finite numbers only (docs/training.md says what each is)."""
    skipped: str = ""
    """Why this step changed no weights; empty where it did."""
    evaluation: Mapping[str, float] | None = None
    """Where the policy was evaluated after this step."""
    spent: Mapping[str, float] = field(default_factory=dict)


Observer = Callable[[TrainProgress], None]
"""Called on the driver after each committed step. One that raises is dropped with a warning; it cannot fail a run."""
