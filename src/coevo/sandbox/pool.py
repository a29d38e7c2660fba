"""The maker's side: starts workers, hands them jobs, reads what comes back, replaces what dies."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import TracebackType

from coevo.errors import SandboxError, UsageError
from coevo.sandbox import report
from coevo.sandbox.codec import CodecError, encode
from coevo.sandbox.inside.wire import HEADER
from coevo.sandbox.types import Execution, Job, Level, Preload

ZYGOTE = Path(__file__).parent / "inside" / "zygote.py"
START_S = 60.0
GRACE_S = 15.0
"""How long past a job's wall limit a worker may take to report before it counts as dead."""
_PACKAGES = {Preload.STDLIB: (), Preload.NUMPY: ("numpy",), Preload.NUMPY_SCIPY: ("numpy", "scipy")}
_ENVIRONMENT = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/tmp",
    "LANG": "C.UTF-8",
    "PYTHONHASHSEED": "0",
    "PYTHONDONTWRITEBYTECODE": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
}


class WorkerDied(Exception):
    """A worker ended, or answered nonsense. The job in flight may be tried on another."""


class Worker:
    """One warm process behind walls. Not thread-safe; one job at a time."""

    def __init__(self, level: Level, preload: Preload) -> None:
        settings = {
            "level": str(level),
            "parent": os.getpid(),
            "packages": package_folders(preload),
            "host_uid": _host_id(os.geteuid()),
            "host_gid": _host_id(os.getegid()),
        }
        self._socket, theirs = socket.socketpair()
        try:
            self._process = _spawn(settings, theirs)
        finally:
            theirs.close()
        self._socket.settimeout(START_S)
        try:
            if self._socket.recv(5, socket.MSG_WAITALL) != b"ready":
                raise OSError("it ended while starting")
        except OSError as e:
            raise SandboxError(f"a sandbox worker could not be started: {self._last_words() or e}") from None

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

    def close(self) -> None:
        self._socket.close()
        self._process.kill()
        self._process.wait()
        if self._process.stderr is not None:
            self._process.stderr.close()

    def _last_words(self) -> str:
        self._process.kill()
        self._process.wait()
        assert self._process.stderr is not None
        lines = self._process.stderr.read().decode(errors="replace").strip().splitlines()
        return lines[-1] if lines else ""


def _spawn(settings: dict[str, object], control: socket.socket) -> subprocess.Popen[bytes]:
    # The child closes everything but 0, 1, 2; its control socket arrives as standard input and moves to its place there.
    executable = getattr(sys, "_base_executable", sys.executable) or sys.executable
    return subprocess.Popen(
        [os.path.realpath(executable), "-s", "-P", "-S", "-X", "utf8", str(ZYGOTE), json.dumps(settings)],
        stdin=control,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=_ENVIRONMENT,
        cwd="/",
        close_fds=True,
        start_new_session=True,
    )


def _host_id(own: int) -> int:
    """The id a worker has outside: one's own, but never 0, whose processes the kernel does not count."""
    return own or 61_000 + os.getpid() % 4_000


def package_folders(preload: Preload) -> list[str]:
    """The folders a preload set shows: the packages and their bundled libraries."""
    folders: list[str] = []
    for name in _PACKAGES[preload]:
        spec = importlib.util.find_spec(name)
        if spec is None or not spec.submodule_search_locations:
            raise UsageError(f"preload set {str(preload)!r} needs {name}, which is not installed: pip install {name}")
        folder = os.path.realpath(next(iter(spec.submodule_search_locations)))
        folders += [path for path in (folder, folder + ".libs") if os.path.isdir(path)]
    return folders


class LocalSandbox:
    """Workers of one rung, by preload set. `run` is thread-safe: as many jobs at a time as there are `workers`."""

    def __init__(self, level: Level, *, preload: Preload, workers: int) -> None:
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
        """Execute a job. Raises `UsageError` for a job that cannot be sent; never for what a candidate does."""
        header, payload = pack(job)
        with self._slots:
            for attempt in (1, 2):
                worker = self._take(job.preload)
                try:
                    raw = worker.run(header, payload, job.limits.wall)
                except WorkerDied as e:
                    self._discard(worker)
                    if attempt == 2:
                        return report.lost(job, f"the sandbox worker died twice: {e}")
                    continue
                execution = report.interpret(job, raw)
                self._put_back(job.preload, worker)
                return execution
        raise AssertionError("unreachable")

    def close(self) -> None:
        with self._lock:
            self._closed = True
            workers = list(self._all)
            self._all.clear()
        for worker in workers:
            worker.close()

    def __enter__(self) -> LocalSandbox:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _take(self, preload: Preload) -> Worker:
        with self._lock:
            if self._idle[preload]:
                return self._idle[preload].pop()
        return self._start(preload)

    def _start(self, preload: Preload) -> Worker:
        worker = Worker(self._level, preload)
        with self._lock:
            closed = self._closed
            if not closed:
                self._all.add(worker)
        if closed:
            worker.close()
            raise SandboxError("the sandbox is closed")
        return worker

    def _put_back(self, preload: Preload, worker: Worker) -> None:
        with self._lock:
            self._idle[preload].append(worker)

    def _discard(self, worker: Worker) -> None:
        with self._lock:
            self._all.discard(worker)
        with contextlib.suppress(OSError):
            worker.close()


def pack(job: Job) -> tuple[bytes, bytes]:
    """The bytes of a job: header for the worker, payload for the process it forks."""
    limits = job.limits
    names = [name for name, _ in job.files]
    if job.main not in names:
        raise UsageError(f"the job's main file {job.main!r} is not among its files: {', '.join(names) or 'none'}")
    arrays = job.preload is not Preload.STDLIB
    calls: list[bytes] = []
    for i, call in enumerate(job.calls):
        try:
            calls.append(encode((list(call.args), dict(call.kwargs)), arrays=arrays))
        except CodecError as e:
            raise UsageError(f"arguments of call {i}: {e}") from None
    body = encode(
        {
            "files": list(job.files),
            "main": job.main,
            "entry": job.entry,
            "calls": calls,
            "argv": list(job.argv),
            "seed": job.seed,
        }
    )
    payload = b"".join((len(job.stdin).to_bytes(8, "little"), job.stdin, body))
    files_room = sum(4096 * (len(text.encode("utf-8", "surrogatepass")) // 4096 + 2) for _, text in job.files)
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
