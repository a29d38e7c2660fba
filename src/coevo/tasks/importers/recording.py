"""From a row to recorded calls: its check, run once in the sandbox around its own solution (see recorder.py)."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coevo.errors import SandboxError
from coevo.programs import MAIN
from coevo.sandbox.types import Call, Execution, Job, Limits, Preload, Sandbox, SandboxConfig, Status
from coevo.tasks.importers.forms import Form, form_of
from coevo.tasks.importers.rows import Row
from coevo.tasks.importers.shown import call_key
from coevo.tasks.values import to_json

MAX_CALLS = 200
"""Different calls of one check that become tests; further ones are left out."""

OUTPUT_BYTES = 8 << 20
"""Of all recorded calls of a row."""

_RECORDER = Path(__file__).parent / "recorder.py"


@dataclass(frozen=True)
class Recorded:
    """Different calls, in order, each with its answer; `form` says how answers are to be compared."""

    calls: tuple[Call, ...]
    answers: tuple[Any, ...]
    form: Form
    preload: Preload


@dataclass(frozen=True)
class Refused:
    """No faithful recording. `reason` is a value of `coevo.tasks.importers.Reason`."""

    reason: str
    detail: str


class Recorder:
    """Records rows in a sandbox."""

    def __init__(self, sandbox: Sandbox, cpu_s: float) -> None:
        self._sandbox = sandbox
        self._limits = Limits(cpu_s=cpu_s, output_bytes=OUTPUT_BYTES)
        self._source = _RECORDER.read_text(encoding="utf-8")

    def record(self, row: Row) -> Recorded | Refused:
        """Run the row's check; then run the recorded calls again, each answer being compared with the first one."""
        form = form_of(row.test, ("candidate", row.entry))
        if not form.value:
            return Refused("property", form.why)
        preload = Preload.NUMPY if re.search(r"\bnumpy\b", row.solution + row.test) else Preload.STDLIB
        found = self._checked(row, preload)
        if isinstance(found, Refused):
            return found
        pairs = {call_key(c["args"], c["kwargs"]): c for c in reversed(found)}
        different = list(reversed(pairs.values()))[:MAX_CALLS]
        if len(different) < 2:
            return Refused("too few", f"{len(different)} different call")
        calls = tuple(Call(tuple(c["args"]), c["kwargs"]) for c in different)
        answers = tuple(c["result"] for c in different)
        again = self._run(((MAIN, row.solution),), row.entry, calls, preload, seed=2)
        for position, (call, answer) in enumerate(zip(calls, answers, strict=True)):
            got = again.calls[position] if position < len(again.calls) else None
            if got is None or got.status is not Status.OK:
                return Refused("unstable", f"{_shown(row, call)}: {got.error if got else again.error}")
            if to_json(got.value) != to_json(answer):
                return Refused("unstable", f"{_shown(row, call)}: first {answer!r:.60}, then {got.value!r:.60}")
        return Recorded(calls, answers, form, preload)

    def _checked(self, row: Row, preload: Preload) -> list[dict[str, Any]] | Refused:
        """Every call that the check makes, with its answer."""
        call = Call((row.solution, row.test, row.entry, 10 * MAX_CALLS))
        execution = self._run(((MAIN, self._source),), "record", (call,), preload, seed=1)
        answer = execution.calls[0] if execution.calls else None
        if answer is None or answer.status is not Status.OK:
            status = answer.status if answer else execution.status
            return Refused("quarantined", f"{status}: {answer.error if answer else execution.error}")
        report = answer.value
        if not _well_formed(report):
            return Refused("quarantined", "its code interferes with the recording")
        fault = next((call["fault"] for call in report["calls"] if "fault" in call), None)
        if report["stage"] != "done":
            return Refused("quarantined", f"{report['stage']} fails: {report['error']}")
        return Refused("not plain", fault) if fault else report["calls"]

    def _run(
        self, files: tuple[tuple[str, str], ...], entry: str, calls: tuple[Call, ...], preload: Preload, *, seed: int
    ) -> Execution:
        job = Job(files, MAIN, entry=entry, calls=calls, preload=preload, limits=self._limits, seed=seed)
        execution = self._sandbox.run(job)
        if execution.status is Status.INFRASTRUCTURE:
            raise SandboxError(f"the sandbox failed while a row was recorded: {execution.error}")
        return execution


@contextmanager
def open_recorder(cpu_s: float) -> Iterator[Recorder]:
    """A recorder with a sandbox of its own; each execution may use `cpu_s` seconds of CPU time."""
    from coevo.sandbox import open_sandbox

    sandbox = open_sandbox(SandboxConfig(), preload=Preload.STDLIB, workers=1)
    try:
        yield Recorder(sandbox, cpu_s)
    finally:
        sandbox.close()


def _well_formed(report: Any) -> bool:
    """Whether a report has the form that recorder.py gives it: the data set's code ran beside it, and could change it."""
    if not (isinstance(report, dict) and isinstance(report.get("calls"), list) and {"stage", "error"} <= set(report)):
        return False
    return all(
        isinstance(call, dict)
        and (
            "fault" in call
            or (isinstance(call.get("args"), list) and isinstance(call.get("kwargs"), dict) and "result" in call)
        )
        for call in report["calls"]
    )


def _shown(row: Row, call: Call) -> str:
    arguments = [repr(value) for value in call.args] + [f"{name}={value!r}" for name, value in call.kwargs.items()]
    return f"{row.entry}({', '.join(arguments)})"[:120]
