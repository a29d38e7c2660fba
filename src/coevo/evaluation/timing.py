"""Timed runs of a program and its reference: interleaved, each in a fresh process on fresh inputs, every answer checked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from coevo.errors import InfrastructureError, TaskError
from coevo.evaluation.checkers import Verdict
from coevo.evaluation.efficiency import EfficiencyConfig, Speed, enough
from coevo.evaluation.running import Meter
from coevo.sandbox.types import CallResult, Status
from coevo.tasks.types import Test


@dataclass(frozen=True)
class Sample:
    """One timed run: its answers, and the CPU seconds of the whole of it."""

    answers: Sequence[CallResult]
    cpu_s: float

    @property
    def fault(self) -> int | None:
        """Index of the first input without an answer."""
        return next((i for i, a in enumerate(self.answers) if a.status is not Status.OK), None)


@dataclass(frozen=True)
class Problem:
    """A timed run that gave no right answer."""

    test: Test
    answer: CallResult
    verdict: Verdict | None
    """None: there was no answer at all."""


def overloaded(answer: CallResult) -> InfrastructureError:
    """The reference ran into the wall-clock limit: that says something about the machine, and nothing about a candidate."""
    return InfrastructureError(
        f"the reference itself went {answer.error or 'over the wall-clock limit'}; the machine is overloaded, or limits.wall_s is too small"
    )


Measure = Callable[[Sequence[Test], Meter], Sample]


def time_pairs(
    reference: Measure,
    candidate: Measure,
    inputs: Callable[[int], Sequence[Test]],
    check: Callable[[Test, CallResult, CallResult], Verdict],
    config: EfficiencyConfig,
    meter: Meter,
) -> Speed | Problem:
    """Time pairs until the speed-up is known well enough, or the candidate gives no or a wrong answer.

    `inputs(run)` makes the inputs of one run; `check(test, got, expected)` compares two answers. What the candidate
    uses goes to `meter`; what the reference uses goes nowhere.
    """
    speed = Speed((), ())
    aside = Meter()
    while True:
        tests = inputs(speed.pairs)
        if speed.pairs % 2:
            theirs, ours = candidate(tests, meter), reference(tests, aside)
        else:
            ours, theirs = reference(tests, aside), candidate(tests, meter)
        if ours.fault is not None:
            answer = ours.answers[ours.fault]
            if answer.status is Status.WALL:
                raise overloaded(answer)
            raise TaskError(f"the reference gives no answer to a timing input: {answer.status}: {answer.error}")
        if theirs.fault is not None:
            return Problem(tests[theirs.fault], theirs.answers[theirs.fault], None)
        for test, got, expected in zip(tests, theirs.answers, ours.answers, strict=True):
            verdict = check(test, got, expected)
            if not verdict.ok:
                return Problem(test, got, verdict)
        speed = Speed((*speed.reference, ours.cpu_s), (*speed.candidate, theirs.cpu_s))
        if enough(speed, config):
            return speed
