"""A pool of worker processes on this machine that outlives whatever happens in one of them.

One dispatcher thread owns the workers. Each worker is exec'd afresh (never forked from a process that has threads or
torch in it), leads a process group of its own, and dies with the driver. A worker that dies, or whose job passes its
deadline, is killed with everything below it and replaced; the job is tried once more, then its future gets an
`InfrastructureError`. While jobs are short, the next one waits in the worker's pipe already, so that it never idles.
"""

from __future__ import annotations

import json
import os
import pickle
import select
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from pathlib import Path
from types import TracebackType
from typing import Any

from coevo.errors import CoevoError, InfrastructureError, UsageError
from coevo.evaluation.pool_worker import DONE, FAILED, READY, STOP

_BOOT = (
    "import json, sys; sys.path[:] = json.loads(sys.argv.pop()); from coevo.evaluation.pool_worker import main; main()"
)
_ONE_THREAD = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
_ATTEMPTS = 2
_SETUP_TRIES = 3
_PREFETCH_UNDER_S = 0.05
"""A job is sent ahead only to a worker whose jobs take less than this: behind a long one it might wait while others idle."""
_PREFETCH_BYTES = 1 << 16
"""Nor is a larger message: it might not fit into the pipe of a busy worker, and would block the dispatcher."""


class RemoteTraceback(Exception):
    """The cause of an exception that was raised in a worker: its traceback there, as text."""

    def __str__(self) -> str:
        return f"in a worker process:\n{self.args[0]}"


@dataclass(eq=False)
class _Job:
    message: bytes
    future: Future[Any]
    deadline_s: float | None
    attempts: int = 0


@dataclass(eq=False)
class _Worker:
    process: subprocess.Popen[bytes]
    connection: Connection
    end: int
    """A pidfd: readable when the process has ended, even if a child of it still holds the connection."""
    since: float
    """When the job at the head of `jobs` (or the setup) began."""
    ready: bool = False
    jobs: deque[_Job] = field(default_factory=deque)
    typical_s: float = 1.0
    """Running mean of job durations; nothing is sent ahead until jobs have shown to be short."""


class LocalPool:
    """`workers` processes, each with its own `state = setup()`; close it, or use it in a `with`.

    `setup` and the functions given to `submit` travel as pickles by name, so they live in an importable module
    (`functools.partial` is fine). If `setup` raises, every future gets that exception (`InfrastructureError` when a worker
    died in it, or three in a row failed). `deadline_s` bounds each job's wall time unless `submit` says otherwise;
    `setup_deadline_s` bounds a setup.
    """

    def __init__(
        self,
        workers: int,
        setup: Callable[[], Any],
        *,
        deadline_s: float | None = None,
        setup_deadline_s: float = 120.0,
    ) -> None:
        if workers < 1:
            raise UsageError(f"a pool needs 1 worker or more, not {workers}")
        self.workers = workers
        self._setup = _pickled(setup, "setup")
        self._deadline_s, self._setup_deadline_s = deadline_s, setup_deadline_s
        self._lock = threading.Lock()
        self._queue: deque[_Job] = deque()
        self._hungry = False
        """Whether the dispatcher sleeps although a worker could take a job: then `submit` wakes it."""
        self._closing = False
        self._close_by = 0.0
        self._broken: BaseException | None = None
        self._setup_failures = 0
        self._crew: list[_Worker] = []
        self._selector = selectors.DefaultSelector()
        self._bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._selector.register(self._bell, selectors.EVENT_READ, None)
        self._thread = threading.Thread(target=self._dispatch, name="coevo-pool", daemon=True)
        self._thread.start()

    def submit(self, fn: Callable[..., Any], *args: Any, deadline_s: float | None = None) -> Future[Any]:
        """Run `fn(state, *args)` in a worker. Its exceptions arrive with `RemoteTraceback` as their cause.

        Callbacks of the future run in the dispatcher's thread: keep them short.
        """
        job = _Job(_pickled((fn, args), "job"), Future(), self._deadline_s if deadline_s is None else deadline_s)
        with self._lock:
            if self._closing:
                raise UsageError("this pool is closed; open another one")
            if self._broken is not None:
                job.future.set_exception(self._broken)
                return job.future
            self._queue.append(job)
            wake, self._hungry = self._hungry, False
        if wake:
            os.eventfd_write(self._bell, 1)
        return job.future

    def close(self, grace_s: float = 5.0) -> None:
        """End all workers: idle ones get `grace_s` to close their state, busy ones are killed with their jobs.

        Jobs that wait are cancelled; jobs that run get an `InfrastructureError`. When it returns, no process is left.
        """
        with self._lock:
            if not self._closing:
                self._closing, self._close_by = True, time.monotonic() + grace_s
                os.eventfd_write(self._bell, 1)
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def __enter__(self) -> LocalPool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # Everything below runs in the dispatcher's thread. PR_SET_PDEATHSIG is about the *thread* that started a process,
    # so workers must be started by the one thread that lives as long as they may.

    def _dispatch(self) -> None:
        try:
            for _ in range(self.workers):
                self._hire()
            while not self._closing:
                self._feed()
                for key, _ in self._selector.select(self._patience()):
                    worker = key.data
                    if worker is None:
                        os.eventfd_read(self._bell)
                    elif worker in self._crew and (key.fd != worker.end or worker.connection.poll()):
                        self._listen(worker)
                    elif worker in self._crew:
                        self._replace(worker, self._bury(worker))
                self._enforce_deadlines()
        except BaseException as e:
            self._break(InfrastructureError(f"the pool's dispatcher failed: {type(e).__name__}: {e}"))
        finally:
            self._shut_down()

    def _hire(self) -> None:
        if self._broken is not None:
            return
        ours, theirs = Pipe()
        env = dict.fromkeys(_ONE_THREAD, "1") | os.environ
        argv = [
            sys.executable,
            "-c",
            _BOOT,
            str(theirs.fileno()),
            str(os.getpid()),
            json.dumps([str(entry) for entry in sys.path]),
        ]
        try:
            process = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=2, pass_fds=[theirs.fileno()], start_new_session=True, env=env
            )
        except OSError as e:
            ours.close()
            self._setup_failed(InfrastructureError(f"cannot start a worker process: {e.strerror or e}"))
            return
        finally:
            theirs.close()
        worker = _Worker(process, ours, os.pidfd_open(process.pid), time.monotonic())
        self._crew.append(worker)
        for end in (ours, worker.end):
            self._selector.register(end, selectors.EVENT_READ, worker)
        try:
            ours.send_bytes(self._setup)
        except OSError:
            self._replace(worker, self._bury(worker))

    def _feed(self) -> None:
        """Give waiting jobs to workers: to the idle ones first, then one ahead where jobs are short."""
        for ahead in (0, 1):
            if not self._queue:
                break
            for worker in list(self._crew):
                if worker.ready and len(worker.jobs) == ahead and not (ahead and worker.typical_s > _PREFETCH_UNDER_S):
                    job = self._next(_PREFETCH_BYTES if ahead else None)
                    if job is not None:
                        self._send(worker, job)
        with self._lock:
            self._hungry = not self._queue and any(w.ready and len(w.jobs) < 2 for w in self._crew)

    def _next(self, max_bytes: int | None) -> _Job | None:
        while True:
            with self._lock:
                if not self._queue or (max_bytes is not None and len(self._queue[0].message) > max_bytes):
                    return None
                job = self._queue.popleft()
            if job.attempts or job.future.running() or job.future.set_running_or_notify_cancel():
                return job

    def _send(self, worker: _Worker, job: _Job) -> None:
        worker.jobs.append(job)
        if len(worker.jobs) == 1:
            worker.since = time.monotonic()
        try:
            worker.connection.send_bytes(job.message)
        except OSError:
            self._replace(worker, self._bury(worker))

    def _listen(self, worker: _Worker) -> None:
        try:
            message = worker.connection.recv_bytes()
        except (EOFError, OSError):
            self._replace(worker, self._bury(worker))
            return
        now = time.monotonic()
        if worker.ready:
            job = worker.jobs.popleft()
            worker.typical_s += 0.25 * (now - worker.since - worker.typical_s)
            worker.since = now
            self._feed_one(worker)
            _resolve(job.future, message)
        elif message[:1] == READY:
            worker.ready, self._setup_failures = True, 0
        else:
            error, text, trace = pickle.loads(message[1:])
            self._bury(worker)
            if not isinstance(error, CoevoError):
                error = InfrastructureError(f"a worker could not be set up: {text}")
            error.__cause__ = RemoteTraceback(trace)
            self._setup_failed(error)

    def _feed_one(self, worker: _Worker) -> None:
        """Before the reply of a finished job is looked at, its worker gets the next one."""
        if not worker.jobs and (job := self._next(None)) is not None:
            self._send(worker, job)

    def _patience(self) -> float | None:
        """Seconds until the next deadline of a job or a setup; None without any."""
        ends = [end for worker in self._crew if (end := self._ends(worker)) is not None]
        return max(0.0, min(ends) - time.monotonic()) if ends else None

    def _ends(self, worker: _Worker) -> float | None:
        limit = self._setup_deadline_s if not worker.ready else worker.jobs[0].deadline_s if worker.jobs else None
        return None if limit is None else worker.since + limit

    def _enforce_deadlines(self) -> None:
        now = time.monotonic()
        for worker in list(self._crew):
            end = self._ends(worker)
            if end is not None and now > end and not worker.connection.poll():
                self._bury(worker)
                self._replace(worker, f"passed its deadline of {end - worker.since:g} s and was killed")

    def _bury(self, worker: _Worker) -> str:
        """Kill a worker and all below it, and say how it ended."""
        if worker in self._crew:
            self._crew.remove(worker)
            for end in (worker.connection, worker.end):
                self._selector.unregister(end)
            worker.connection.close()
            os.close(worker.end)
        kill_tree(worker.process)
        code = worker.process.returncode
        return f"was killed by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"

    def _replace(self, worker: _Worker, how: str) -> None:
        """A worker is gone: look after its jobs and hire another."""
        if not worker.ready:
            self._setup_failed(InfrastructureError(f"a worker {how} while it was being set up"))
            return
        jobs, worker.jobs = list(worker.jobs), deque()
        if jobs:
            jobs[0].attempts += 1
            if jobs[0].attempts >= _ATTEMPTS:
                lost = jobs.pop(0)
                lost.future.set_exception(InfrastructureError(f"a worker {how}, {_ATTEMPTS} times with the same job"))
        with self._lock:
            self._queue.extendleft(reversed(jobs))
        self._hire()

    def _setup_failed(self, error: BaseException) -> None:
        self._setup_failures += 1
        if isinstance(error, UsageError):
            self._break(error)
        elif self._setup_failures < _SETUP_TRIES:
            self._hire()
        elif not any(worker.ready for worker in self._crew):
            self._break(error)

    def _break(self, error: BaseException) -> None:
        """No worker can be had: fail what waits, and whatever is submitted from now on."""
        with self._lock:
            self._broken = error
            jobs, self._queue = list(self._queue), deque()
        for job in jobs:
            if job.attempts or job.future.running() or job.future.set_running_or_notify_cancel():
                job.future.set_exception(error)

    def _shut_down(self) -> None:
        with self._lock:
            jobs, self._queue = list(self._queue), deque()
        for job in jobs:
            if not job.future.cancel():
                job.future.set_exception(
                    InfrastructureError("the pool was closed before this job could be tried again")
                )
        for worker in list(self._crew):
            if worker.jobs or not worker.ready:
                self._bury(worker)
                for job in worker.jobs:
                    job.future.set_exception(InfrastructureError("the pool was closed while this job was running"))
            else:
                try:
                    worker.connection.send_bytes(STOP)
                except OSError:
                    self._bury(worker)
        for worker in list(self._crew):
            # Not Popen.wait: a leader that is not reaped yet keeps its group's number from being anyone else's.
            select.select([worker.end], [], [], max(0.0, self._close_by - time.monotonic()))
            self._bury(worker)
        self._selector.close()
        os.close(self._bell)


def kill_tree(process: subprocess.Popen[bytes]) -> None:
    """Kill a process that leads a group, the group, and its descendants that left the group; reap the leader."""
    below = _descendants(process.pid)
    if process.returncode is None:
        # Not reaped yet, so neither its pid nor its group's can be anyone else's.
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    for pid in below:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    process.wait()


def _descendants(pid: int) -> list[int]:
    found: list[int] = []
    for file in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = [int(text) for text in file.read_text().split()]
        except OSError:
            continue
        for child in children:
            found += [child, *_descendants(child)]
    return found


def _pickled(value: Any, what: str) -> bytes:
    try:
        return pickle.dumps(value, pickle.HIGHEST_PROTOCOL)
    except Exception as e:
        raise UsageError(
            f"this {what} cannot be sent to a worker: {e}. Use functions of an importable module and plain values"
        ) from e


def _resolve(future: Future[Any], message: bytes) -> None:
    try:
        if message[:1] == DONE:
            future.set_result(pickle.loads(memoryview(message)[1:]))
            return
        assert message[:1] == FAILED
        error, text, trace = pickle.loads(memoryview(message)[1:])
        if error is None:
            error = RuntimeError(text)
        error.__cause__ = RemoteTraceback(trace)
    except Exception as e:
        error = InfrastructureError(f"a worker's reply cannot be read: {type(e).__name__}: {e}")
    future.set_exception(error)
