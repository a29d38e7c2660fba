"""A warm, walled Python that forks once per job. Executed as a plain file by a clean interpreter; knows nothing of coevo.

    python -s -P -S zygote.py SETTINGS      with its control socket on descriptor 3

Two processes: the outer one only waits, so that the worker dies when its maker does, however that ends. The inner
one is process 1 of its own pid namespace, has moved into a root that shows little, and serves jobs: it reads a
fixed header, clones a child, and the child itself reads the job from the same socket. The worker never holds
a candidate's code, input or output in memory that a later child would inherit.
"""

from __future__ import annotations

import gc
import json
import mmap
import os
import resource
import select
import signal
import socket
import struct
import sys
import time
from importlib.machinery import ModuleSpec, PathFinder
from typing import Any, NoReturn

_HERE = os.path.dirname(os.path.realpath(__file__))
sys.path.insert(0, _HERE)

import runner  # noqa: E402
import seccomp  # noqa: E402
import syscalls as sc  # noqa: E402
import walls  # noqa: E402
import wire  # noqa: E402

CONTROL = 3
RESULTS = 3
"""The same number: in a child, the descriptor of its answers takes the place of the control socket."""

BUFFER = 1 << 18
PIPE = 1 << 16
QUIET_MS = 3
"""For so long a child's output waits in its pipes: most jobs end sooner, and cost no wake-up but one."""

STDLIB = ["abc", "array", "base64", "bisect", "cmath", "collections", "collections.abc", "contextlib", "copy", "dataclasses", "datetime", "decimal", "enum", "fractions", "functools", "heapq", "inspect", "io", "itertools", "json", "linecache", "math", "numbers", "operator", "queue", "random", "re", "statistics", "string", "textwrap", "threading", "time", "traceback", "types", "typing", "unicodedata"]
PACKAGES = {
    "numpy": ["numpy", "numpy.fft", "numpy.linalg", "numpy.polynomial", "numpy.random"],
    "scipy": ["scipy", "scipy.linalg", "scipy.optimize", "scipy.spatial", "scipy.special"],
}


class Packages:
    """Finds the preloaded packages, and nothing else of the folder they are in."""

    def __init__(self, folder: str, names: list[str]) -> None:
        self.folder = folder
        self.names = names

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name in self.names:
            return PathFinder.find_spec(name, [self.folder])
        return None

    def move(self, folder: str) -> None:
        """Look in `folder` from now on, for the submodules of what is loaded, too."""
        for module in list(sys.modules.values()):
            places = getattr(module, "__path__", None)
            if isinstance(places, list):
                module.__path__ = [folder + p[len(self.folder) :] if p.startswith(self.folder) else p for p in places]
        self.folder = folder


def main() -> NoReturn:
    settings = json.loads(sys.argv[1])
    os.dup2(0, CONTROL)
    sys.path.remove(_HERE)
    for name in ("codec", "runner", "seccomp", "syscalls", "walls", "wire"):
        sys.modules.pop(name, None)
    sys.argv = [""]
    parent = os.pidfd_open(os.getppid())
    if os.getppid() != settings["parent"]:
        os._exit(1)
    _outer(settings, parent)


def _outer(settings: dict[str, Any], parent: int) -> NoReturn:
    """Clone the worker, give it its user, wait for its end or for the maker's."""
    flags = sc.ALL_NAMESPACES if settings["level"] == "namespaces" else 0
    if os.geteuid() == 0:
        os.setgroups([])
    mine, theirs = os.pipe()
    pid, pidfd = sc.clone(flags)
    if pid == 0:
        os.close(theirs)
        os.read(mine, 1)  # until the user map is written
        os.close(mine)
        os.close(parent)
        Worker(settings).serve()
    try:
        if flags:
            _map_user(pid, settings["host_uid"], settings["host_gid"], walls.USER)
        for fd in (mine, theirs, CONTROL, 0):
            os.close(fd)
        poller = select.poll()
        poller.register(pidfd, select.POLLIN)
        poller.register(parent, select.POLLIN)
        poller.poll()
    finally:
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        os.waitpid(pid, 0)
    os._exit(0)


def _map_user(pid: int, uid: int, gid: int, inside: int) -> None:
    for name, text in (("setgroups", "deny"), ("uid_map", f"{inside} {uid} 1"), ("gid_map", f"{inside} {gid} 1")):
        with open(f"/proc/{pid}/{name}", "w") as file:
            file.write(text)


class Worker:
    """Serves jobs until its control socket closes."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.namespaces = settings["level"] == "namespaces"
        self.control = socket.socket(fileno=CONTROL)
        self.statm = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)
        self.page = resource.getpagesize()
        self.processors = os.cpu_count() or 1
        # Not inherited: a child must not find what an earlier one has said.
        self.buffer = mmap.mmap(-1, BUFFER, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        self.buffer.madvise(mmap.MADV_DONTFORK)
        self.view = memoryview(self.buffer)
        self.filled = 0
        self._prepare(settings)

    def _prepare(self, settings: dict[str, Any]) -> None:
        """Preload, raise the walls that all jobs share, build what each job's own walls need."""
        packages = _preload(settings["packages"])
        readable = walls.visible_paths()
        if self.namespaces:
            walls.raise_root(readable, settings["packages"])
            if packages is not None:
                packages.move(walls.PACKAGES)
            readable = ["/"]
        self.readable = readable
        sc.prctl(sc.PR_SET_PDEATHSIG, signal.SIGKILL)
        sc.prctl(sc.PR_SET_NO_NEW_PRIVS, 1)
        if self.namespaces:
            sc.drop_bounding_set()
        self.landlock = {execute: walls.Landlock(execute=execute) for execute in (False, True)}
        self.filters = {
            processes: seccomp.Filter(processes=processes, own_pid_namespace=self.namespaces)
            for processes in (False, True)
        }
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
        self.control.sendall(b"ready")
        while True:
            header = self.control.recv(wire.HEADER.size, socket.MSG_WAITALL)
            if len(header) < wire.HEADER.size:
                os._exit(0)
            self._execute(*wire.HEADER.unpack(header))

    def _execute(
        self,
        size: int,
        cpu_s: float,
        wall_s: float,
        memory: int,
        stream_cap: int,
        answer_cap: int,
        scratch: int,
        processes: int,
    ) -> None:
        streams = [os.pipe() for _ in range(3)]
        flags = sc.CLONE_NEWPID | sc.CLONE_NEWNS if self.namespaces else 0
        begun = time.monotonic()
        pid, pidfd = sc.clone(flags)
        if pid == 0:
            self._child([write for _, write in streams], size, cpu_s, memory, answer_cap, scratch, processes)
        for _, write in streams:
            os.close(write)
        watch = Watch(pid, pidfd, [read for read, _ in streams], [stream_cap, stream_cap, answer_cap], self)
        reason = watch.until_end(cpu_s, begun + wall_s)
        if reason != wire.RAN:
            os.kill(pid, signal.SIGKILL)
        _, status, usage = os.wait4(pid, 0)
        wall = time.monotonic() - begun
        if watch.drain() and reason == wire.RAN:
            reason = wire.OVER_OUTPUT
        os.close(pidfd)
        for read, _ in streams:
            os.close(read)
        cpu = usage.ru_utime + usage.ru_stime
        self._put(wire.REPORT, wire.REPORT_BODY.pack(reason, status, cpu, wall, 0.0, usage.ru_maxrss))
        self.flush()

    def pump(self, stream: int, fd: int) -> int:
        """Move what is readable towards the maker. Returns how many bytes; 0 at the end."""
        self._room(wire.CHUNK.size + PIPE)
        start = self.filled + wire.CHUNK.size
        n = os.readv(fd, [self.view[start : start + PIPE]])
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
            try:
                self.control.sendall(self.view[: self.filled])
            except OSError:
                os._exit(0)
            self.filled = 0

    def _child(
        self, writes: list[int], size: int, cpu_s: float, memory: int, answer_cap: int, scratch: int, processes: int
    ) -> NoReturn:
        """Raise the job's own walls, then run it. Until READY is sent, an end is the sandbox's fault."""
        try:
            payload = self._receive(size)
            stdin_size = struct.unpack_from("<Q", payload)[0]
            stdin = payload[8 : 8 + stdin_size]
            self._descriptors(writes, stdin)
            fixed = os.pread(self.statm, 64, 0).split()
            sc.close_from(RESULTS + 1)
            if self.namespaces:
                walls.private_scratch(scratch)
                os.chdir(walls.SCRATCH)
            walls.limit_resources(
                address_space=int(fixed[0]) * self.page + memory,
                cpu_s=cpu_s,
                file_bytes=scratch,
                tasks=walls.THREADS + processes + 2,
            )
            landlock = self.landlock[processes > 0]
            landlock.enforce(landlock.ruleset(self.readable, walls.SCRATCH if self.namespaces else None))
            sc.drop_capabilities()
            self.filters[processes > 0].install(os.getpid())
            answers = runner.Answers(RESULTS, answer_cap)
            gc.enable()
            usage = resource.getrusage(resource.RUSAGE_SELF)
            answers.send(wire.READY, wire.READY_BODY.pack(usage.ru_utime + usage.ru_stime, usage.ru_maxrss))
        except BaseException as e:
            os.write(2, f"{type(e).__name__}: {e}".encode())
            os._exit(wire.SETUP_FAILED)
        runner.run(payload[8 + stdin_size :], answers)

    def _receive(self, size: int) -> bytes:
        parts = bytearray(size)
        view = memoryview(parts)
        while view:
            n = self.control.recv_into(view)
            if n == 0:
                os._exit(wire.SETUP_FAILED)
            view = view[n:]
        return bytes(parts)

    def _descriptors(self, writes: list[int], stdin: bytes) -> None:
        """0: the input, 1 and 2: the streams, 3: the answers."""
        self.control.detach()
        if len(stdin) <= PIPE:
            read, write = os.pipe()
            os.write(write, stdin)
        else:
            # More than a pipe holds: a sealed file in memory, as if by redirection.
            read = os.memfd_create("stdin", os.MFD_ALLOW_SEALING)
            view = memoryview(stdin)
            while view:
                view = view[os.write(read, view) :]
            os.lseek(read, 0, os.SEEK_SET)
            import fcntl

            fcntl.fcntl(
                read,
                fcntl.F_ADD_SEALS,
                fcntl.F_SEAL_SEAL | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_WRITE,
            )
        os.dup2(read, 0)
        for target, source in enumerate(writes, start=1):
            os.dup2(source, target)


class Watch:
    """Waits for a child: its end, its CPU time, the clock, its output."""

    def __init__(self, pid: int, pidfd: int, reads: list[int], caps: list[int], worker: Worker) -> None:
        self.pidfd = pidfd
        self.clock = sc.cpu_clock(pid)
        self.open = dict(zip(reads, (1, 2, 3), strict=True))
        self.left = dict(zip(reads, caps, strict=True))
        self.worker = worker

    def until_end(self, cpu_s: float, deadline: float) -> int:
        """Why it is over. Looks again as soon as all processors together could have passed the CPU limit."""
        poller = select.poll()
        poller.register(self.pidfd, select.POLLIN)
        quiet = True
        while True:
            wall_left = deadline - time.monotonic()
            if wall_left <= 0:
                return wire.OVER_WALL
            try:
                cpu_left = cpu_s - time.clock_gettime(self.clock)
            except OSError:
                cpu_left = cpu_s  # it has just ended
            if cpu_left <= 0:
                return wire.OVER_CPU
            pause = min(wall_left, max(cpu_left / self.worker.processors, 0.001))
            events = poller.poll(QUIET_MS if quiet else pause * 1000 + 0.5)
            if not events and quiet:
                quiet = False
                for fd in self.open:
                    poller.register(fd, select.POLLIN)
            for fd, _ in events:
                if fd == self.pidfd:
                    return wire.RAN
            for fd, _ in events:
                if not self._take(fd):
                    poller.unregister(fd)
                    del self.open[fd]
                if self.left.get(fd, 0) < 0:
                    return wire.OVER_OUTPUT

    def _take(self, fd: int) -> int:
        n = self.worker.pump(self.open[fd], fd)
        self.left[fd] -= n
        return n

    def drain(self) -> bool:
        """Read what is left in the pipes, all writers being dead. True if it is over a cap."""
        over = False
        for fd in list(self.open):
            while self._take(fd):
                if self.left[fd] < 0:
                    over = True
                    break
        return over


def _preload(folders: list[str]) -> Packages | None:
    import importlib
    import site

    for name in STDLIB:
        importlib.import_module(name)
    site.setquit()
    site.setcopyright()
    site.sethelper()
    names = [os.path.basename(folder) for folder in folders if not folder.endswith(".libs")]
    if not names:
        return None
    packages = Packages(os.path.dirname(folders[0]), names)
    sys.meta_path.append(packages)  # type: ignore[arg-type]
    for name in names:
        for module in PACKAGES[name]:
            importlib.import_module(module)
    return packages


if __name__ == "__main__":
    main()
