"""A program judged on a task. Missing is not zero: a measurement is scored, failed or unmeasured."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from coevo.tasks.types import Split


class Outcome(StrEnum):
    """Three-valued: only scored and failed evaluations say anything about the program."""

    SCORED = "scored"
    FAILED = "failed"
    """The program's own fault, by `failure`. Fitness is 0 (kind open: the program has no score)."""
    UNMEASURED = "unmeasured"
    """The machine's fault. No fitness; may be tried again."""


class Failure(StrEnum):
    """Why a program has no score."""

    CRASH = "crash"
    """Raised, exited early or died."""
    TIMEOUT = "timeout"
    MEMORY = "memory"
    OUTPUT = "output"
    """Printed or returned too much."""
    INVALID = "invalid"
    """Returned something that is not an answer (wrong shape, infeasible, NaN, not plain data)."""
    INFRASTRUCTURE = "infrastructure"


@dataclass(frozen=True)
class TestResult:
    """One test: `status` is a `coevo.sandbox.Status` value, or "wrong" for an answer that is not accepted."""

    __test__ = False

    name: str
    passed: bool
    status: str
    detail: str = ""
    """For public tests: input, got, expected or the error, shortened. Empty for hidden ones."""


@dataclass(frozen=True)
class Evaluation:
    """What the judge says of one program on one split of one task."""

    program_id: str
    task: str
    split: Split
    seed: int
    outcome: Outcome
    fitness: float | None
    """Higher is better, whatever the task's direction. None exactly when unmeasured."""
    correctness: float | None = None
    """Share of tests passed; kind open: 1 for a feasible answer, else 0."""
    efficiency: float | None = None
    """s / (1 + s) for a speed-up s over the reference; None when not measured."""
    speedup: float | None = None
    score: float | None = None
    """Kind open: the certified score, in the task's own direction."""
    failure: Failure | None = None
    reason: str = ""
    feedback: str = ""
    """Short and factual, from public tests only. What a model is shown."""
    tests: tuple[TestResult, ...] = ()
    cpu_s: float = 0.0
    """CPU seconds spent inside the candidate: charged to a search's budget."""
    wall_s: float = 0.0
    peak_mb: float = 0.0
    executions: int = 0
    judge: str = "separate"
    """"separate", or "shared with the candidate" (OpenEvolve folders): then the score can be forged."""
    extra: dict[str, Any] = field(default_factory=dict)
    """Named numbers a scorer returned beside the score, and the kept output of open tasks (`output`, when small)."""
