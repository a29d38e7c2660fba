"""Running a program's calls or script in the sandbox, so that one bad input costs one test, and every second is counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from coevo.errors import InfrastructureError
from coevo.programs import Program
from coevo.sandbox.types import Call, CallResult, Execution, Job, Limits, Preload, Sandbox, Status

PATIENCE = 2
"""Tests that run into the CPU, wall or output limit, each with all of it to itself, before the tests that are left are given up."""

MAX_SLOW = 4
"""Processes that end at one of these limits before the tests that are left are given up."""

MAX_RESTARTS = 40
"""Further processes after the first, for the tests that a dead one left."""

_OUT_OF_PATIENCE = "not run: too many tests before ran into the limit of time or output"
_SLOW = (Status.CPU, Status.WALL, Status.OUTPUT)
"""Ends that cost the judge time: running into them again and again would hold it up."""
_SHARED = (*_SLOW, Status.MEMORY)
"""Limits that all calls of a process share: a call that was not the first there is tried again in a process of its own."""


@dataclass
class Meter:
    """What was used on behalf of one program."""

    cpu_s: float = 0.0
    wall_s: float = 0.0
    peak_mb: float = 0.0
    executions: int = 0

    def add(self, execution: Execution) -> None:
        self.cpu_s += execution.cpu_s
        self.wall_s += execution.wall_s
        self.peak_mb = max(self.peak_mb, execution.peak_mb)
        self.executions += 1


@dataclass(frozen=True)
class Runner:
    """A sandbox with a task's preload and limits."""

    sandbox: Sandbox
    preload: Preload
    limits: Limits

    def run(self, job: Job, meter: Meter) -> Execution:
        """One execution. A failure of the sandbox is tried once more, then raised; neither try is charged."""
        execution = self.sandbox.run(job)
        if execution.status is Status.INFRASTRUCTURE:
            execution = self.sandbox.run(job)
        if execution.status is not Status.INFRASTRUCTURE:
            meter.add(execution)
            return execution
        raise InfrastructureError(f"the sandbox failed twice: {execution.error or 'no reason given'}")

    def call(self, program: Program, entry: str, calls: Sequence[Call], meter: Meter, *, seed: int) -> Execution:
        """All `calls` of `entry` in one process."""
        return self.run(self._job(program, seed, entry=entry, calls=tuple(calls)), meter)

    def script(self, program: Program, stdin: str, meter: Meter, *, seed: int) -> Execution:
        """The program as `__main__` with `stdin` as its standard input."""
        return self.run(self._job(program, seed, stdin=stdin.encode("utf-8", "surrogatepass")), meter)

    def call_each(
        self, program: Program, entry: str, calls: Sequence[Call], meter: Meter, *, seed: int
    ) -> list[CallResult]:
        """One result per call. What a process that died leaves undone is done in further processes (bounded)."""
        results: list[CallResult] = []
        slow = timed_out = 0
        for _ in range(1 + MAX_RESTARTS):
            execution = self.call(program, entry, calls[len(results) :], meter, seed=seed)
            begun = _begun(execution)
            slow += execution.status in _SLOW
            timed_out += bool(begun) and begun[0].status in _SLOW
            cut = next((i for i, result in enumerate(begun) if i and result.status in _SHARED), len(begun))
            results += begun[:cut]
            if len(results) >= len(calls):
                return results
            if not begun:  # it did not even load; it never will
                return results + [_failed(execution)] * (len(calls) - len(results))
            if timed_out >= PATIENCE or slow >= MAX_SLOW:
                break
        skipped = CallResult(Status.SKIPPED, error=_OUT_OF_PATIENCE if slow else "not run: too many crashes before")
        return results + [skipped] * (len(calls) - len(results))

    def script_each(self, program: Program, stdins: Sequence[str], meter: Meter, *, seed: int) -> list[Execution]:
        """One execution per standard input, until patience ends; the rest are skipped."""
        results: list[Execution] = []
        slow = 0
        for stdin in stdins:
            if slow >= PATIENCE:
                results.append(Execution(Status.SKIPPED, error=_OUT_OF_PATIENCE))
                continue
            results.append(self.script(program, stdin, meter, seed=seed))
            slow += results[-1].status in _SLOW
        return results

    def with_limits(self, limits: Limits) -> Runner:
        return replace(self, limits=limits)

    def _job(self, program: Program, seed: int, **kwargs) -> Job:
        return Job(program.files, program.main, preload=self.preload, limits=self.limits, seed=seed % 2**32, **kwargs)


def _begun(execution: Execution) -> list[CallResult]:
    """Results of the calls that were begun, in order."""
    begun = []
    for result in execution.calls:
        if result.status is Status.SKIPPED:
            break
        begun.append(result if result.error or result.status is Status.OK else replace(result, error=execution.error))
    return begun


def _failed(execution: Execution) -> CallResult:
    """An execution that ended before its first call, as the result of each call."""
    status = Status.EXITED if execution.status is Status.OK else execution.status
    return CallResult(status, error=execution.error, line=execution.line, file=execution.file)
