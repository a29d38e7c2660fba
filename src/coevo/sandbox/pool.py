"""The maker's side: starts workers, hands them jobs, reads what comes back, replaces what dies."""

from __future__ import annotations

import contextlib
import marshal
import socket
import subprocess
import threading
import time
from types import TracebackType

from coevo.errors import SandboxError, UsageError, WallsError
from coevo.programs import check_names
from coevo.sandbox import report
from coevo.sandbox.codec import CodecError, encode
from coevo.sandbox.inside.wire import HEADER
from coevo.sandbox.spawn import spawn
from coevo.sandbox.types import Execution, Job, Level, Preload, Status

START_S = 60.0
ATTEMPTS = 2
"""How often a job is tried when the sandbox itself fails."""
END_S = 5.0
GRACE_S = 15.0
"""How long past a job's wall limit a worker may take to report before it counts as dead."""


class WorkerDied(Exception):
    """A worker ended, or answered nonsense. The job in flight may be tried on another."""


class Worker:
    """One warm process behind walls. Not thread-safe; one job at a time."""

    def __init__(self, level: Level | str, preload: Preload, disk_mb: int = 16) -> None:
        self._socket, theirs = socket.socketpair()
        with theirs:
            self._spawned = spawn(level, preload, theirs, disk_mb)
        self._process = self._spawned.process
        self._socket.settimeout(START_S)
        try:
            if self._socket.recv(5, socket.MSG_WAITALL) != b"ready":
                raise OSError("it ended while starting")
        except OSError as e:
            words = self._last_words()
            self.close()
            raise SandboxError(f"a sandbox worker could not be started: {words or e}") from None

    def run(self, header: bytes, payload: bytes, wall_s: float) -> report.Raw:
        """Send one job and read its report. Raises `WorkerDied`."""
        deadline = time.monotonic() + wall_s + GRACE_S
        try:
            self._socket.settimeout(GRACE_S)
            self._socket.sendall(header + payload if len(payload) < 1 << 16 else header)
            if len(payload) >= 1 << 16:
                self._socket.sendall(payload)
            return report.read(self._socket, deadline)
        except (OSError, report.Garbled) as e:
            raise WorkerDied(str(e)) from e

    def hang_up(self) -> None:
        """Make it end, with everything in it, also while a job runs. Does not wait."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Hang up, and wait until nothing is left."""
        self.hang_up()
        self._socket.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(END_S)  # it cleans up on its own
        self._process.kill()
        self._process.wait()
        if self._process.stderr is not None:
            self._process.stderr.close()
        self._spawned.clean()

    def _last_words(self) -> str:
        self._process.kill()
        self._process.wait()
        assert self._process.stderr is not None
        lines = self._process.stderr.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else ""


class LocalSandbox:
    """Workers of one rung, by preload set. `run` is thread-safe: as many jobs at a time as there are `workers`."""

    def __init__(self, level: Level, *, preload: Preload = Preload.STDLIB, workers: int = 1) -> None:
        if workers < 1:
            raise UsageError(f"a sandbox needs at least one worker, not {workers}")
        self._level = level
        self._slots = threading.BoundedSemaphore(workers)
        self._lock = threading.Lock()
        self._idle: dict[Preload, list[Worker]] = {kind: [] for kind in Preload}
        self._all: set[Worker] = set()
        self._closed = False
        self._put_back(preload, self._start(preload))

    @property
    def level(self) -> Level:
        return self._level

    def run(self, job: Job) -> Execution:
        """Execute a job. Raises `UsageError` for a job that cannot be run here; never for what a candidate does."""
        if job.limits.processes and self._level is Level.LANDLOCK:
            raise WallsError(
                "child processes (limits.processes > 0) need level 'namespaces' or 'bubblewrap', not 'landlock'"
            )
        header, payload = pack(job)
        why = ""
        with self._slots:
            for _ in range(ATTEMPTS):
                try:
                    worker = self._take(job)
                except SandboxError as e:
                    if self._closed:
                        raise
                    why = str(e)
                    continue
                try:
                    raw = worker.run(header, payload, job.limits.wall)
                    execution = report.interpret(job, raw, can_kill_itself=self._level is not Level.NAMESPACES)
                except WorkerDied as e:
                    self._discard(worker)
                    why = str(e)
                    continue
                except BaseException:
                    self._discard(worker)
                    raise
                if execution.status is not Status.INFRASTRUCTURE:
                    self._put_back(job.preload, worker)
                    return execution
                self._discard(worker)
                why = execution.error
        return report.lost(job, why)

    def close(self) -> None:
        """End every worker, and what runs in them. A job in flight on another thread ends as `SandboxError`."""
        with self._lock:
            self._closed = True
            workers = list(self._all)
            self._all.clear()
        for worker in workers:
            worker.hang_up()
        for worker in workers:
            worker.close()

    def __enter__(self) -> LocalSandbox:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _take(self, job: Job) -> Worker:
        if self._level is not Level.BUBBLEWRAP:
            with self._lock:
                if self._idle[job.preload]:
                    return self._idle[job.preload].pop()
        return self._start(job.preload, job.limits.disk_mb)

    def _start(self, preload: Preload, disk_mb: int = 16) -> Worker:
        if self._closed:
            raise SandboxError("the sandbox is closed")
        worker = Worker(self._level, preload, disk_mb)
        with self._lock:
            closed = self._closed
            if not closed:
                self._all.add(worker)
        if closed:
            worker.close()
            raise SandboxError("the sandbox is closed")
        return worker

    def _put_back(self, preload: Preload, worker: Worker) -> None:
        """Keep a worker for the next job; but a bubblewrap container serves only one."""
        with self._lock:
            if self._level is not Level.BUBBLEWRAP and not self._closed:
                self._idle[preload].append(worker)
                return
        self._discard(worker)

    def _discard(self, worker: Worker) -> None:
        with self._lock:
            self._all.discard(worker)
        worker.close()


def pack(job: Job) -> tuple[bytes, bytes]:
    """The bytes of a job: header for the worker, payload for the process it forks."""
    limits = job.limits
    names = [name for name, _ in job.files]
    if job.main not in names:
        raise UsageError(f"the job's main file {job.main!r} is not among its files: {', '.join(names) or 'none'}")
    check_names(names)
    arrays = job.preload is not Preload.STDLIB
    calls: list[bytes] = []
    for i, call in enumerate(job.calls):
        try:
            calls.append(encode((list(call.args), dict(call.kwargs)), arrays=arrays))
        except CodecError as e:
            raise UsageError(f"arguments of call {i}: {e}") from None
    sources = [(name, text.encode("utf-8", "surrogatepass")) for name, text in job.files]
    body = marshal.dumps(
        {
            "files": sources,
            "main": job.main,
            "entry": job.entry,
            "calls": calls,
            "argv": list(job.argv),
            "seed": job.seed,
        }
    )
    payload = b"".join((len(job.stdin).to_bytes(8, "little"), job.stdin, body))
    files_room = sum(4096 * (len(source) // 4096 + 2) for _, source in sources)
    header = HEADER.pack(
        len(payload),
        limits.cpu_s,
        limits.wall,
        limits.memory_mb << 20,
        limits.output_bytes,
        limits.output_bytes + report.overhead(job),
        (limits.disk_mb << 20) + files_room,
        limits.processes,
    )
    return header, payload
