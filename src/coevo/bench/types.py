"""What a study measures: one record per search, one step per reply. Plain values that metrics are functions of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True)
class Step:
    """One reply of a search, and what became of it."""

    round: int
    """From 1; replies of one round were decided together."""
    edit: str
    program: str = ""
    """Id of the child; empty where the reply made none."""
    fitness: float | None = None
    """Public. None without a program, or where it could not be measured."""
    parent_fitness: float | None = None
    rejection: str = ""
    copy: bool = False
    """The child is its parent, by normal form."""
    duplicate: bool = False
    """The search had it already (a copy of its parent is one, too)."""
    distance: float | None = None
    """To the parent: 0 (the same shingles of code) to 1; None without a program."""
    evaluations: int = 0
    """Charged so far, the start and this step included."""
    tokens: int = 0
    """Of the reply; prompts are in the record's total."""
    surprise: float | None = None
    """Minus the log-probability of the reply's tokens, summed; its mean over tokens estimates the policy's entropy in nats."""


@dataclass(frozen=True)
class SearchRecord:
    """One search on one task, and what hidden tests say of what it found."""

    arm: str
    seed: int
    """Number of the repetition, 0 and up."""
    suite: str
    task: str
    family: str
    stop: str
    """How it ended (`coevo.evolution.result.Stop`)."""
    start: float | None
    """Public fitness of the start program."""
    best: float | None
    """Public fitness of the best."""
    hidden_start: float | None
    hidden_best: float | None
    """On hidden tests, with a seed drawn for nothing else. None: unmeasured."""
    hidden_right: bool | None = None
    """Whether the best passes all hidden tests (kind open: is feasible)."""
    hidden_speedup: float | None = None
    """Of the best over the task's reference, where the task is timed."""
    evaluations: int = 0
    tokens: int = 0
    """Prompts and replies."""
    cpu_s: float = 0.0
    wall_s: float = 0.0
    steps: tuple[Step, ...] = ()
    run: str = ""
    """Folder of its run, relative to the study's; kept only where the study says so."""
    digest: str = ""
    """Of the run's committed steps."""

    @property
    def gain(self) -> float | None:
        """Verified improvement over the start, on hidden tests."""
        if self.hidden_best is None or self.hidden_start is None:
            return None
        return self.hidden_best - self.hidden_start

    def to_dict(self) -> dict[str, Any]:
        """Plain data; the steps column by column, which is a third of the size."""
        row = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "steps"}
        row["steps"] = {name: [getattr(step, name) for step in self.steps] for name in _STEP}
        return row

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> SearchRecord:
        columns: Mapping[str, Sequence[Any]] = row["steps"]
        count = len(next(iter(columns.values()), ()))
        steps = tuple(Step(**{name: values[i] for name, values in columns.items()}) for i in range(count))
        return cls(**{**row, "steps": steps})


_STEP = tuple(f.name for f in fields(Step))


@dataclass(frozen=True)
class Training:
    """What one training run of a study cost and left."""

    arm: str
    seed: int
    run: str
    """Folder of the run, relative to the study's."""
    steps: int
    stopped_by: str
    spent: Mapping[str, float]
    """Evaluations, tokens, minutes."""
    curves: Mapping[str, Sequence[tuple[int, float]]]
    """By metric: (step, value)."""
    checkpoints: tuple[str, ...]
    """Folders, oldest first; relative to the study's."""
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        return {f.name: getattr(self, f.name) for f in fields(self)}

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> Training:
        curves = {name: [(int(step), float(value)) for step, value in points] for name, points in row["curves"].items()}
        return cls(
            **{**row, "curves": curves, "checkpoints": tuple(row["checkpoints"]), "notes": tuple(row.get("notes", ()))}
        )
