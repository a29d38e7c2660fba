"""The child: the process of one job. Raises the walls that are its own, then runs the job behind them."""

from __future__ import annotations

import fcntl
import gc
import os
import resource
import signal
import struct
from typing import NoReturn

import runner
import syscalls as sc
import walls
import wire
from seccomp import Filter

ANSWERS_FD, RULES_FD = 3, 4
PIPE = 1 << 16


class Walls:
    """Which walls a rung has, and what can be built of them beforehand."""

    def __init__(self, level: str, readable: list[str], tasks: int) -> None:
        self.level = level
        self.tasks = tasks
        self.namespaces = level == "namespaces"
        self.own_scratch = level in ("namespaces", "bubblewrap", "bare")
        self.may_leave_children = level == "rlimits"
        self.clone_flags = sc.CLONE_NEWPID | sc.CLONE_NEWNS if self.namespaces else 0
        self.limits = level != "bare"
        self.landlock: dict[bool, walls.Landlock] = {}
        self.filters: dict[bool, Filter] = {}
        if level in ("namespaces", "landlock", "bubblewrap"):
            abi = walls.landlock_abi()
            if level == "landlock" and abi < walls.LANDLOCK_ALONE:
                raise OSError(f"Landlock ABI {abi} is too old to stand alone: {walls.LANDLOCK_ALONE} is needed")
            choices = (False,) if level == "landlock" else (False, True)
            for processes in choices:
                if abi:
                    self.landlock[processes] = walls.Landlock(execute=processes)
                self.filters[processes] = Filter(
                    processes=processes,
                    # In one pid namespace with the worker, Landlock must be what keeps signals from it.
                    signals=self.namespaces or (processes and abi >= walls.LANDLOCK_SIGNALS),
                    metadata=self.own_scratch,
                )
        if self.namespaces:
            sc.drop_bounding_set()
        if self.limits:
            walls.limit_worker()
        # Without a scratch folder to write to, the rules are the same for every job, and many: made once.
        self.rules = self.landlock[False].ruleset(readable, None) if level == "landlock" else -1

    def raise_own(self, header: wire.Header, address_space: int) -> None:
        """Bind the calling process, for good."""
        if not self.limits:
            return
        walls.limit_job(
            address_space=address_space + header.memory,
            cpu_s=header.cpu_s,
            file_bytes=header.scratch,
            tasks=self.tasks + walls.THREADS + header.processes,
        )
        processes = header.processes > 0
        if self.landlock:
            rules = RULES_FD if self.rules >= 0 else self.landlock[processes].ruleset(["/"], walls.SCRATCH)
            walls.Landlock.enforce(rules)
        sc.drop_capabilities()
        if self.filters:
            self.filters[processes].install(os.getpid())


def become(
    own: Walls, header: wire.Header, control: int, writes: list[int], place: str, address_space: int
) -> NoReturn:
    """Turn this fresh process into the job's. Until READY is sent, an end is the sandbox's fault."""
    try:
        sc.prctl(sc.PR_SET_PDEATHSIG, signal.SIGKILL)
        if own.may_leave_children:
            os.setpgid(0, 0)
        payload = _receive(control, header.size)
        size = struct.unpack_from("<Q", payload)[0]
        _descriptors(payload[8 : 8 + size], writes)
        if own.rules >= 0:
            os.dup2(own.rules, RULES_FD)
        sc.close_from(RULES_FD + (own.rules >= 0))
        if own.namespaces:
            walls.private_scratch(header.scratch)
        elif not own.own_scratch:
            os.mkdir(place, 0o700)
        os.chdir(place)
        floor = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        job = runner.unpack(payload[8 + size :])
        # What decoding took at its height, less the encoded text, which is gone by now.
        inputs = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - floor) - header.size
        own.raise_own(header, address_space + max(0, inputs))
        answers = runner.Answers(ANSWERS_FD, header.answer_cap)
        del payload
        gc.freeze()  # or the candidate's first collections would walk through its inputs
        gc.enable()
        usage = resource.getrusage(resource.RUSAGE_SELF)
        answers.send(wire.READY, wire.READY_BODY.pack(usage.ru_utime + usage.ru_stime, usage.ru_maxrss))
    except BaseException as e:
        os.write(2, f"{type(e).__name__}: {e}".encode(errors="replace"))
        os._exit(wire.SETUP_FAILED)
    try:
        code = runner.run(job, answers)
    except BaseException:
        code = 1
    os._exit(code)


def _receive(control: int, size: int) -> memoryview:
    data = bytearray(size)
    view = memoryview(data)
    while view:
        n = os.readv(control, [view])
        if n == 0:
            os._exit(wire.SETUP_FAILED)
        view = view[n:]
    return memoryview(data)


def _descriptors(stdin: memoryview, writes: list[int]) -> None:
    """0: the input, 1 and 2: the streams, 3: the answers."""
    if len(stdin) <= PIPE:
        read, write = os.pipe()
        os.write(write, stdin)
        os.close(write)
    else:
        # More than a pipe holds: a sealed file in memory, as if by redirection.
        read = os.memfd_create("stdin", os.MFD_ALLOW_SEALING)
        while stdin:
            stdin = stdin[os.write(read, stdin) :]
        os.lseek(read, 0, os.SEEK_SET)
        fcntl.fcntl(
            read, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SEAL | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_WRITE
        )
    os.dup2(read, 0)
    for target, source in enumerate(writes, start=1):
        os.dup2(source, target)
