"""The worker: raises the walls that all jobs share, then serves jobs, one at a time, each in a process of its own.

It reads a fixed header; the child it clones reads the job itself from the same socket. So the worker never holds a
candidate's code, input or output in memory that a later child would inherit: what it passes on goes through one
buffer that children do not get.
"""

from __future__ import annotations

import contextlib
import gc
import mmap
import os
import resource
import select
import shutil
import signal
import socket
import sys
import time
import traceback
from typing import Any, NoReturn

import child
import runner
import shown
import syscalls as sc
import walls
import wire
from cgroup import Account
from preload import preload

CONTROL = 3
BUFFER = 1 << 18
PIPE = 1 << 16
QUIET_MS = 3
"""For so long a child's output waits in its pipes: most jobs end sooner, and cost no wake-up but one."""


class Worker:
    """Serves jobs until its control socket closes."""

    def __init__(self, settings: dict[str, Any], account: Account) -> None:
        self.level: str = settings["level"]
        self.account = account
        self.errors = os.dup(2)
        self.control = socket.socket(fileno=CONTROL)
        self.space = walls.AddressSpace()
        self.processors = os.cpu_count() or 1
        self.folder: str = settings["scratch"] or walls.SCRATCH
        self.jobs = 0
        # Not inherited: a child must not find what an earlier one has said.
        self.buffer = mmap.mmap(-1, BUFFER, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.buffer.madvise(mmap.MADV_DONTFORK)
        self.view = memoryview(self.buffer)
        self.filled = 0
        self._prepare(settings)

    def _prepare(self, settings: dict[str, Any]) -> None:
        """Preload, raise the shared walls, build what each job's own walls need."""
        packages = preload(settings["packages"])
        readable = ["/"]
        if self.level == "namespaces":
            walls.raise_root(shown.visible_paths(sys.executable), settings["packages"])
            if packages is not None:
                packages.move(shown.PACKAGES)
        elif self.level == "landlock":
            readable = [
                *shown.without_packages(shown.visible_paths(sys.executable)),
                *settings["packages"],
                self.folder,
            ]
        if self.level != "namespaces" and os.geteuid() == 0 and settings["host_uid"] != 0:
            walls.become(settings["host_uid"], settings["host_gid"])
        sc.prctl(sc.PR_SET_PDEATHSIG, signal.SIGKILL)
        sc.prctl(sc.PR_SET_NO_NEW_PRIVS, 1)
        sc.prctl(sc.PR_SET_CHILD_SUBREAPER, 1)
        self.walls = child.Walls(self.level, readable, settings["tasks"])
        for number in (0, 1, 2):
            read, write = os.pipe()
            os.dup2(read if number == 0 else write, number)
            os.close(read)
            os.close(write)
        runner.open_streams()
        os.chdir("/")
        gc.collect()
        gc.freeze()
        gc.disable()

    def serve(self) -> NoReturn:
        try:
            self.control.sendall(b"ready")
            while True:
                header = self.control.recv(wire.HEADER.size, socket.MSG_WAITALL)
                if len(header) < wire.HEADER.size:
                    break
                self._execute(wire.Header(*wire.HEADER.unpack(header)))
        except (BrokenPipeError, ConnectionResetError):
            pass  # the maker is gone
        except BaseException:
            os.write(self.errors, traceback.format_exc().encode())
            os._exit(1)
        os._exit(0)

    def _execute(self, header: wire.Header) -> None:
        self.jobs += 1
        streams = [os.pipe(), os.pipe(), os.pipe()]
        for read, _ in streams:
            os.set_blocking(read, False)  # a write end may outlive the job: in flight in a socket, or in an orphan
        used = self._used() if header.processes else 0.0
        begun = time.monotonic()
        pid, pidfd = sc.clone(self.walls.clone_flags)
        if pid == 0:
            child.become(
                self.walls,
                header,
                self.control.detach(),
                [write for _, write in streams],
                self._place(),
                self.space.size(),
            )
        for _, write in streams:
            os.close(write)
        watch = Watch(self, pid, pidfd, [read for read, _ in streams], header, used)
        reason = watch.until_end(begun + header.wall_s)
        if reason != wire.RAN:
            os.kill(pid, signal.SIGKILL)
        _, status, usage = os.wait4(pid, 0)
        self._sweep(pid)
        wall = time.monotonic() - begun
        if watch.drain() and reason == wire.RAN:
            reason = wire.OVER_OUTPUT
        os.close(pidfd)
        for read, _ in streams:
            os.close(read)
        cpu = usage.ru_utime + usage.ru_stime
        if header.processes and self.account.counts:
            cpu = max(cpu, self._used() - used)
        self._put(wire.REPORT, wire.REPORT_BODY.pack(reason, status, cpu, wall, usage.ru_maxrss))
        self.flush()
        if not watch.answered:
            os._exit(1)  # it never was ready: who knows how much of the job is still in the socket

    def _place(self) -> str:
        """The folder a job runs in."""
        return self.folder if self.walls.own_scratch else f"{self.folder}/{self.jobs}"

    def _used(self) -> float:
        """CPU seconds of everything that belongs to jobs so far: the group's without one's own."""
        own = resource.getrusage(resource.RUSAGE_SELF)
        return self.account.usage() - own.ru_utime - own.ru_stime

    def _sweep(self, pid: int) -> None:
        """Without a pid namespace or a private scratch: end what the job has left running, remove its folder."""
        if self.walls.may_leave_children:
            walls.end_orphans(pid)
        if not self.walls.own_scratch:
            shutil.rmtree(self._place(), ignore_errors=True)

    def pump(self, stream: int, fd: int) -> int:
        """Move what is readable towards the maker. Returns how many bytes; 0 at the end, or if there is nothing."""
        self._room(wire.CHUNK.size + PIPE)
        start = self.filled + wire.CHUNK.size
        try:
            n = os.readv(fd, [self.view[start : start + PIPE]])
        except BlockingIOError:
            return 0
        if n:
            wire.CHUNK.pack_into(self.buffer, self.filled, stream, n)
            self.filled = start + n
        return n

    def _put(self, stream: int, body: bytes) -> None:
        self._room(wire.CHUNK.size + len(body))
        wire.CHUNK.pack_into(self.buffer, self.filled, stream, len(body))
        start = self.filled + wire.CHUNK.size
        self.view[start : start + len(body)] = body
        self.filled = start + len(body)

    def _room(self, size: int) -> None:
        if self.filled + size > BUFFER:
            self.flush()

    def flush(self) -> None:
        if self.filled:
            self.control.sendall(self.view[: self.filled])
            self.filled = 0


class Watch:
    """Waits for a child: its end, its CPU time, the clock, its output."""

    def __init__(
        self, worker: Worker, pid: int, pidfd: int, reads: list[int], header: wire.Header, used: float
    ) -> None:
        self.worker = worker
        self.pidfd = pidfd
        self.clock = sc.cpu_clock(pid)
        self.cpu_s = header.cpu_s
        self.reads = reads
        self.answer_cap = header.answer_cap
        self.open = dict(zip(reads, (wire.STDOUT, wire.STDERR, wire.ANSWERS), strict=True))
        self.left = dict(zip(reads, (header.stream_cap, header.stream_cap, header.answer_cap), strict=True))
        self.used = used if header.processes and worker.account.counts else None

    def until_end(self, deadline: float) -> int:
        """Why it is over. Looks again as soon as all processors together could have passed the CPU limit."""
        poller = select.poll()
        poller.register(self.pidfd, select.POLLIN)
        quiet = True
        while True:
            wall_left = deadline - time.monotonic()
            cpu_left = self.cpu_s - self._cpu()
            if wall_left <= 0 or cpu_left <= 0:
                return wire.OVER_CPU if cpu_left <= 0 else wire.OVER_WALL
            pause = min(wall_left, max(cpu_left / self.worker.processors, 0.001)) * 1000
            events = poller.poll(min(QUIET_MS, pause) if quiet else pause)
            if not events and quiet:
                quiet = False
                for fd in self.open:
                    poller.register(fd, select.POLLIN)
            ended = False
            for fd, _ in events:
                if fd == self.pidfd:
                    ended = True
                elif not self._take(fd):
                    poller.unregister(fd)
                    del self.open[fd]
                elif self.left[fd] < 0:
                    return wire.OVER_OUTPUT
            if ended:
                return wire.RAN

    def _cpu(self) -> float:
        if self.used is not None:
            return self.worker._used() - self.used
        with contextlib.suppress(OSError):  # it has just ended
            return time.clock_gettime(self.clock)
        return 0.0

    def _take(self, fd: int) -> int:
        n = self.worker.pump(self.open[fd], fd)
        self.left[fd] -= n
        return n

    @property
    def answered(self) -> bool:
        """Whether anything came on the descriptor of the answers: READY is the first."""
        return self.left[self.reads[2]] < self.answer_cap

    def drain(self) -> bool:
        """Read what is left in the pipes after the end. True if it passes a cap."""
        for fd in self.open:
            while self.left[fd] >= 0 and self._take(fd):
                pass
        return min(self.left.values()) < 0
