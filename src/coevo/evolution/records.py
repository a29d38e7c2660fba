"""What a search writes per step: one `candidate` event. The whole state of a search is a fold of these."""

from __future__ import annotations

from array import array
from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from coevo.evaluation.types import Evaluation, Failure, Outcome
from coevo.evolution.types import Edit, Rejection


@dataclass(frozen=True, slots=True)
class Decision:
    """What one step will do, decided on the driver from the committed state alone."""

    step: int
    edit: Edit
    island: int
    parent: str = ""
    """Program id. For `tune`: the program whose constants are moved. Empty for the start."""
    others: tuple[str, ...] = ()
    """Second parent of crossover and splice first, then inspirations."""
    history: tuple[str, ...] = ()
    model: str = ""
    offsets: tuple[float, ...] = ()
    """`tune`: what the optimiser asked for, in units of each constant's scale."""
    skeleton: str = ""
    """`tune`: which optimiser asked."""
    generation: int = 0
    """`tune`: of that optimiser."""
    at: int = 0
    """Commits when it was decided."""
    rejected: str = ""
    """Why the last reply for this parent was rejected. Not written: it follows from the events."""

    def to_dict(self) -> dict[str, Any]:
        row: dict[str, Any] = {"edit": self.edit.value, "island": self.island, "at": self.at}
        if self.parent:
            row["parent"] = self.parent
        for name in ("others", "history", "offsets"):
            if values := getattr(self, name):
                row[name] = list(values)
        for name in ("model", "skeleton", "generation"):
            if value := getattr(self, name):
                row[name] = value
        return row

    @classmethod
    def from_dict(cls, step: int, row: Mapping[str, Any]) -> Decision:
        return cls(
            step=step,
            edit=Edit(row["edit"]),
            island=row["island"],
            parent=row.get("parent", ""),
            others=tuple(row.get("others", ())),
            history=tuple(row.get("history", ())),
            model=row.get("model", ""),
            offsets=tuple(row.get("offsets", ())),
            skeleton=row.get("skeleton", ""),
            generation=row.get("generation", 0),
            at=row["at"],
        )


@dataclass(frozen=True, slots=True)
class Traits:
    """Cheap descriptors of a program, made in the worker beside the proposal."""

    structure: str
    """Hash of the program without its names and constants."""
    skeleton: str
    """Hash of the program without the constants that `tune` can move."""
    constants: int
    """How many of those it has."""
    descriptors: tuple[float, ...]
    """What cells are made of: source size, control flow."""
    sketch: bytes
    """For distances between programs: 32-bit numbers, packed (see `packed`, `unpacked`)."""


def packed(sketch: Sequence[int]) -> bytes:
    """A sketch in four bytes a number: an archive of 100,000 programs keeps as many of them."""
    return array("I", sketch).tobytes()


def unpacked(sketch: bytes) -> tuple[int, ...]:
    """The numbers of a packed sketch."""
    return tuple(array("I", sketch))


@dataclass(frozen=True, slots=True)
class Summary:
    """The part of an Evaluation that a search steers by."""

    outcome: Outcome
    fitness: float | None = None
    correctness: float | None = None
    efficiency: float | None = None
    speedup: float | None = None
    score: float | None = None
    failure: Failure | None = None
    reason: str = ""
    cpu_s: float = 0.0

    @classmethod
    def of(cls, e: Evaluation) -> Summary:
        return cls(
            e.outcome, e.fitness, e.correctness, e.efficiency, e.speedup, e.score, e.failure, e.reason[:200], e.cpu_s
        )

    def to_dict(self) -> dict[str, Any]:
        row: dict[str, Any] = {"outcome": self.outcome.value, "cpu_s": self.cpu_s}
        for name in ("fitness", "correctness", "efficiency", "speedup", "score"):
            if (value := getattr(self, name)) is not None:
                row[name] = value
        if self.failure is not None:
            row["failure"] = self.failure.value
        if self.reason:
            row["reason"] = self.reason
        return row

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> Summary:
        failure = row.get("failure")
        return cls(
            Outcome(row["outcome"]),
            row.get("fitness"),
            row.get("correctness"),
            row.get("efficiency"),
            row.get("speedup"),
            row.get("score"),
            Failure(failure) if failure else None,
            row.get("reason", ""),
            row.get("cpu_s", 0.0),
        )


@dataclass(frozen=True, slots=True)
class Candidate:
    """One committed step."""

    decision: Decision
    program: str | None = None
    """Id of the child; None for a rejection."""
    rejection: Rejection | None = None
    detail: str = ""
    traits: Traits | None = None
    evaluation: Summary | None = None
    duplicate: bool = False
    """The program had been judged at an earlier step, so this step was not charged for an evaluation."""
    tokens: int = 0
    usd: float = 0.0
    asked: Mapping[str, float] = field(default_factory=dict)
    """Budget reserved before the step."""
    charged: Mapping[str, float] = field(default_factory=dict)
    """Budget spent by it. CPU is charged as `cpu_minutes`, but written as the evaluation's `cpu_s`."""

    @property
    def step(self) -> int:
        return self.decision.step

    @property
    def scored(self) -> bool:
        return self.evaluation is not None and self.evaluation.outcome is Outcome.SCORED

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data. `step` is the event's own."""
        row: dict[str, Any] = {"decision": self.decision.to_dict(), "asked": dict(self.asked)}
        if self.program is not None:
            row["program"] = self.program
        if self.rejection is not None:
            row["rejection"] = self.rejection.value
        if self.detail:
            row["detail"] = self.detail
        if self.traits is not None:
            t = self.traits
            row["traits"] = [t.structure, t.skeleton, t.constants, list(t.descriptors), b64encode(t.sketch).decode()]
        if self.evaluation is not None:
            row["evaluation"] = self.evaluation.to_dict()
        if self.duplicate:
            row["duplicate"] = True
        if self.tokens or self.usd:
            row["tokens"], row["usd"] = self.tokens, self.usd
        row["charged"] = {name: value for name, value in self.charged.items() if name != "cpu_minutes"}
        return row

    @classmethod
    def from_dict(cls, step: int, row: Mapping[str, Any]) -> Candidate:
        rejection, traits, evaluation = row.get("rejection"), row.get("traits"), row.get("evaluation")
        duplicate = row.get("duplicate", False)
        charged = dict(row["charged"])
        summary = Summary.from_dict(evaluation) if evaluation else None
        if summary is not None and not duplicate:
            charged["cpu_minutes"] = summary.cpu_s / 60
        return cls(
            decision=Decision.from_dict(step, row["decision"]),
            program=row.get("program"),
            rejection=Rejection(rejection) if rejection else None,
            detail=row.get("detail", ""),
            traits=Traits(traits[0], traits[1], traits[2], tuple(traits[3]), b64decode(traits[4])) if traits else None,
            evaluation=summary,
            duplicate=duplicate,
            tokens=row.get("tokens", 0),
            usd=row.get("usd", 0.0),
            asked=dict(row["asked"]),
            charged=charged,
        )
