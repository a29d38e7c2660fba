"""What a judge finds out about a program, before it is labelled with program, task, split and seed."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from coevo.errors import InfrastructureError
from coevo.evaluation.fitness import FAILED
from coevo.evaluation.types import Failure, Outcome, TestResult
from coevo.sandbox.types import Status


class JudgeBug(InfrastructureError):
    """A checker or scorer raised something that no answer can be blamed for. The evaluation is unmeasured."""


def judge_bug(file: str, error: BaseException) -> JudgeBug:
    """Log a judge's own failure with its traceback, once, and return the error to raise."""
    logging.getLogger("coevo.evaluation").error("%s failed; no program is to blame", file, exc_info=error)
    return JudgeBug(f"{file} raised {type(error).__name__}: {error}; this is a bug of the judge, not of the program")


@dataclass(frozen=True)
class Findings:
    """The part of an `Evaluation` that the judge of a kind decides."""

    outcome: Outcome
    fitness: float | None
    correctness: float | None = None
    efficiency: float | None = None
    speedup: float | None = None
    score: float | None = None
    failure: Failure | None = None
    reason: str = ""
    feedback: str = ""
    tests: tuple[TestResult, ...] = ()
    judge: str = "separate"
    extra: dict[str, Any] = field(default_factory=dict)


FAILURES = {
    Status.ERROR: Failure.CRASH,
    Status.EXITED: Failure.CRASH,
    Status.CRASHED: Failure.CRASH,
    Status.CPU: Failure.TIMEOUT,
    Status.WALL: Failure.TIMEOUT,
    Status.SKIPPED: Failure.TIMEOUT,
    Status.MEMORY: Failure.MEMORY,
    Status.OUTPUT: Failure.OUTPUT,
    Status.INVALID: Failure.INVALID,
    Status.INFRASTRUCTURE: Failure.INFRASTRUCTURE,
}
"""How a run that gave no answer is classed."""


def failed(
    failure: Failure, reason: str, *, feedback: str = "", tests: Sequence[TestResult] = (), **more: Any
) -> Findings:
    """A program without a score, by its own fault."""
    return Findings(
        Outcome.FAILED,
        FAILED,
        correctness=0.0,
        failure=failure,
        reason=reason,
        feedback=feedback,
        tests=tuple(tests),
        **more,
    )
