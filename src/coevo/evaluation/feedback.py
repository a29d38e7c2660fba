"""What a model is told about its program: short facts, from public tests only, bounded in length."""

from __future__ import annotations

from collections.abc import Sequence

from coevo.evaluation.efficiency import Speed
from coevo.evaluation.show import clip, printable, show
from coevo.evaluation.types import TestResult
from coevo.sandbox.types import CallResult, Status
from coevo.tasks.types import Kind, Limits, Task, Test, Timing

MAX_CHARS = 2000
MAX_FAILURES = 3
"""Failing tests that are told in detail, different kinds of failure first."""


def describe_input(task: Task, test: Test) -> str:
    """A test's input: `f([1, 2], k=3)`, or the standard input."""
    if task.kind is Kind.STDIO:
        return f"standard input {show(test.stdin, 240)}"
    arguments = [show(a, 160) for a in test.args] + [f"{k}={show(v, 160)}" for k, v in test.kwargs.items()]
    return clip(f"{task.config.entry}({', '.join(arguments)})", 320)


def describe_fault(answer: CallResult, limits: Limits, *, told: bool = True) -> str:
    """Why a run gave no answer. `told=False` leaves out all text of the candidate's own making (it may quote a hidden test)."""
    error = printable(clip(answer.error, 400)) if told else ""
    if answer.status is Status.ERROR:
        place = f" (line {answer.line}{f' of {answer.file}' if answer.file else ''})" if answer.line else ""
        if error.endswith(f"line {answer.line})"):  # a SyntaxError's own message says it
            place = ""
        return f"raised {error or 'an exception'}{place}"
    said = {
        Status.EXITED: "the process ended before the answer was given",
        Status.CRASHED: "the process was killed by a signal of its own making",
        Status.CPU: f"over the CPU limit of {limits.cpu_s:g} s",
        Status.WALL: f"over the wall-clock limit of {limits.wall:g} s",
        Status.MEMORY: f"over the memory limit of {limits.memory_mb} MB",
        Status.OUTPUT: f"printed or returned more than {limits.output_bytes:,} bytes",
        Status.INVALID: "" if error else "returned something that is not plain data",
        Status.SKIPPED: "not run",
    }.get(answer.status, str(answer.status))
    if answer.status is Status.SKIPPED or not said:
        return error or said
    return said if not error or error.startswith(("over the ", said)) else f"{said} ({error})"


def suite_feedback(results: Sequence[TestResult], speed_line: str = "") -> str:
    """Feedback of kinds function and stdio, from results whose details are already short and public."""
    passed = sum(r.passed for r in results)
    lines = [f"Passed {'all' if passed == len(results) else f'{passed} of'} {len(results)} tests."]
    for result in _telling(results):
        lines.append(f"- {result.name}: {result.detail}")
    untold = len(results) - passed - (len(lines) - 1)
    if untold:
        lines.append(f"- and {untold} more")
    if speed_line:
        lines.append(speed_line)
    return bounded("\n".join(lines))


def speed_line(speed: Speed, speedup: float, timing: Timing) -> str:
    """Time against the reference, per timed input."""
    mine, reference = min(speed.candidate) / timing.inputs, min(speed.reference) / timing.inputs
    if speedup == 1:
        verdict = "as fast as the reference"
    elif speedup > 1:
        verdict = f"{speedup:.3g} times as fast as the reference"
    else:
        verdict = f"{1 / speedup:.3g} times slower than the reference"
    return f"Speed at size {timing.size}: {verdict} ({_time(mine)} against {_time(reference)} of CPU time per input)."


def bounded(text: str, limit: int = MAX_CHARS) -> str:
    """Printable text of at most `limit` characters."""
    return clip(printable(text), limit)


def _telling(results: Sequence[TestResult]) -> list[TestResult]:
    """A few failures that say the most: the first of each kind, then the next ones in order."""
    failed = [r for r in results if not r.passed]
    first_of_kind = {r.status: r for r in reversed(failed)}
    chosen = [r for r in failed if first_of_kind[r.status] is r][:MAX_FAILURES]
    for result in failed:
        if len(chosen) < MAX_FAILURES and not any(result is c for c in chosen):
            chosen.append(result)
    return [r for r in failed if any(r is c for c in chosen)]


def _time(seconds: float) -> str:
    return f"{seconds * 1000:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"
