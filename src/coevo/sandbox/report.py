"""From a worker's report to an `Execution`."""

from __future__ import annotations

import os
import signal
import socket
import time
from dataclasses import dataclass, field
from typing import Any

from coevo.sandbox.codec import CodecError, decode
from coevo.sandbox.inside import wire
from coevo.sandbox.types import CallResult, Execution, Job, Status

MAX_ERROR_BYTES = 16 << 10
"""Room for one error text among the answers, on top of the values."""
NONSENSE = "the answer is not in the form that answers have"
READY_SIZE = wire.FRAME.size + wire.READY_BODY.size


class Garbled(Exception):
    """A worker sent what no worker sends."""


@dataclass
class Raw:
    """What a worker reported: its own findings, and the bytes of the three streams."""

    reason: int
    status: int
    cpu_s: float
    wall_s: float
    peak_kib: int
    streams: dict[int, bytearray] = field(default_factory=dict)


def overhead(job: Job) -> int:
    """Bytes that the frames around the values, and error texts instead of values, may take."""
    return READY_SIZE + (len(job.calls) + 1) * (MAX_ERROR_BYTES + 2 * wire.FRAME.size)


def read(control: socket.socket, deadline: float) -> Raw:
    """Read chunks until the report. Raises `OSError`, or `Garbled`."""
    streams = {1: bytearray(), 2: bytearray(), 3: bytearray()}
    data = bytearray()
    while True:
        control.settimeout(max(deadline - time.monotonic(), 0.001))
        chunk = control.recv(1 << 18)
        if not chunk:
            raise Garbled("it closed its socket")
        data += chunk
        at = 0
        while len(data) - at >= wire.CHUNK.size:
            stream, length = wire.CHUNK.unpack_from(data, at)
            end = at + wire.CHUNK.size + length
            if len(data) < end:
                break
            if stream == wire.REPORT:
                reason, status, cpu_s, wall_s, peak = wire.REPORT_BODY.unpack_from(data, at + wire.CHUNK.size)
                return Raw(reason, status, cpu_s, wall_s, peak, streams)
            streams[stream] += data[at + wire.CHUNK.size : end]
            at = end
        del data[:at]


def lost(job: Job, why: str) -> Execution:
    """The execution that the sandbox failed to make."""
    calls = tuple(CallResult(Status.SKIPPED, error=why) for _ in job.calls)
    return Execution(Status.INFRASTRUCTURE, calls, error=why)


def interpret(job: Job, raw: Raw, *, can_kill_itself: bool = True) -> Execution:
    """Judge how an execution ended, from the kernel's account first, the process's own words second.

    Process 1 of a pid namespace cannot kill itself: there (not `can_kill_itself`), a kill that neither a limit nor
    we account for came from outside.
    """
    answers = bytes(raw.streams[3])
    if len(answers) < READY_SIZE or answers[0] != 0:
        why = bytes(raw.streams[2]).decode(errors="replace") or f"wait status {raw.status}"
        return lost(job, f"the sandbox could not start the program: {why}")
    setup_s, floor_kib = wire.READY_BODY.unpack_from(answers, wire.FRAME.size)
    frames = _frames(answers, READY_SIZE)
    done = bool(frames) and frames[-1][0] == wire.DONE
    status, error = _ending(job, raw, done, floor_kib)
    if not can_kill_itself and status is Status.CRASHED and os.WTERMSIG(raw.status) == signal.SIGKILL:
        return lost(job, "the program was killed from outside, perhaps for want of memory on this machine")
    fault = next((payload for kind, payload in frames if kind == wire.FAULT), None)
    where: CallResult | None = None
    if fault is not None and status in (Status.EXITED, Status.OK):
        where = _told(fault, job)
        status, error = where.status, where.error
    calls = _calls(job, frames, status, error)
    if status is Status.OK:
        worst = next((call for call in calls if call.status is not Status.OK), None)
        if worst is not None:
            status, error = worst.status, worst.error
            if status is Status.SKIPPED:  # a forged DONE
                status, error = Status.EXITED, "the process ended before every answer was given"
    return Execution(
        status=status,
        calls=calls,
        stdout=bytes(raw.streams[1][: job.limits.output_bytes]),
        stderr=bytes(raw.streams[2][: job.limits.output_bytes]),
        error=error,
        line=where.line if where else None,
        file=where.file if where else None,
        exit_code=os.WEXITSTATUS(raw.status) if os.WIFEXITED(raw.status) else None,
        cpu_s=max(raw.cpu_s - setup_s, 0.0),
        wall_s=raw.wall_s,
        peak_mb=max(raw.peak_kib - floor_kib, 0) / 1024,
    )


def _frames(data: bytes, at: int) -> list[tuple[int, bytes]]:
    frames: list[tuple[int, bytes]] = []
    while len(data) - at >= wire.FRAME.size:
        kind, length = wire.FRAME.unpack_from(data, at)
        end = at + wire.FRAME.size + length
        if end > len(data):
            break
        frames.append((kind, data[at + wire.FRAME.size : end]))
        at = end
    return frames


def _ending(job: Job, raw: Raw, done: bool, floor_kib: int) -> tuple[Status, str]:
    limits = job.limits
    if raw.reason == wire.OVER_CPU:
        return Status.CPU, f"over the CPU limit of {limits.cpu_s:g} s"
    if raw.reason == wire.OVER_WALL:
        return Status.WALL, f"over the wall limit of {limits.wall:g} s"
    if raw.reason == wire.OVER_OUTPUT:
        return Status.OUTPUT, f"over the output cap of {limits.output_bytes:,} bytes"
    if os.WIFSIGNALED(raw.status):
        return _killed(job, raw, floor_kib)
    code = os.WEXITSTATUS(raw.status)
    if job.entry is None:
        return (Status.OK, "") if code == 0 else (Status.EXITED, f"exit code {code}")
    if done:
        return Status.OK, ""
    return Status.EXITED, f"the process exited with code {code} before every answer was given"


def _killed(job: Job, raw: Raw, floor_kib: int) -> tuple[Status, str]:
    number = os.WTERMSIG(raw.status)
    near_cap = (raw.peak_kib - floor_kib) / 1024 > 0.9 * job.limits.memory_mb
    if near_cap and number in (signal.SIGSEGV, signal.SIGABRT, signal.SIGBUS, signal.SIGKILL):
        return Status.MEMORY, f"over the memory budget of {job.limits.memory_mb} MB"
    if number in (signal.SIGKILL, signal.SIGXCPU) and raw.cpu_s > 0.7 * job.limits.cpu_s:
        return Status.CPU, f"over the CPU limit of {job.limits.cpu_s:g} s"
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = f"signal {number}"
    return Status.CRASHED, f"killed by {name}"


def _result(payload: bytes, job: Job) -> CallResult:
    """An answer as the process told it. Forged nonsense is invalid."""
    if payload[:1] != b"\1":
        return _told(payload, job)
    try:
        return CallResult(Status.OK, decode(payload[1:]))
    except CodecError:
        return CallResult(Status.INVALID, error=NONSENSE)


def _told(payload: bytes, job: Job) -> CallResult:
    """Why there is no answer, as the process told it: never OK, and of no place but a line of the job's own files."""
    try:
        told: Any = decode(payload)
        word, error, line, file = told
        status = Status(word)
        if status not in (Status.ERROR, Status.EXITED, Status.MEMORY, Status.OUTPUT, Status.INVALID):
            raise ValueError(status)
        error = str(error)[:MAX_ERROR_BYTES]
    except (CodecError, ValueError, TypeError):
        return CallResult(Status.INVALID, error=NONSENSE)
    source = next((text for name, text in job.files if name == file), None)
    if source is None or type(line) is not int or not 0 < line <= source.count("\n") + source.count("\r") + 1:
        return CallResult(status, error=error)
    return CallResult(status, error=error, line=line, file=file)


def _calls(job: Job, frames: list[tuple[int, bytes]], status: Status, error: str) -> tuple[CallResult, ...]:
    results = [_result(payload, job) for kind, payload in frames if kind == wire.ANSWER][: len(job.calls)]
    begun = sum(kind == wire.BEGUN for kind, _ in frames)
    if len(results) < len(job.calls) and begun > len(results) and status is not Status.OK:
        results.append(CallResult(status, error=error))
    while len(results) < len(job.calls):
        results.append(CallResult(Status.SKIPPED, error=error))
    return tuple(results)
