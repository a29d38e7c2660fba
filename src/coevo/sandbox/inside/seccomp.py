"""The system call filter, as classic BPF made by hand.

An allow list: what is not on it fails with EPERM, what is newer than it with ENOSYS, so that libraries take their
fallbacks. The filter is a binary search over intervals of call numbers: it is short to run and, what
counts per fork, short for the kernel to pre-compute.
"""

from __future__ import annotations

import ctypes
import errno
import struct

from syscalls import COLUMN, call

SECCOMP_SET_MODE_FILTER = 1
ALLOW, KILL, ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
AUDIT_ARCH = (0xC000003E, 0xC00000B7)
LAST_KNOWN = 462

Line = tuple[int, int, int, int]
"""Operation, lines to skip if true, lines to skip if false, operand (linux/filter.h)."""
_LOAD, _JUMP, _JEQ, _JGE, _JSET, _RETURN = 0x20, 0x05, 0x15, 0x35, 0x45, 0x06
_NR, _ARCH, _ARG0, _ARG1, _ARG2, _ARG2_HIGH = 0, 4, 16, 24, 32, 36
_NEW_NAMESPACES, _CLONE_THREAD, _AF_UNIX = 0x7E020000, 0x10000, 1
_CONNECTIONLESS = 2
"""A bit of SOCK_DGRAM and SOCK_RAW, and of no SOCK_STREAM or SOCK_SEQPACKET: such sockets send to any address, also unasked."""
_PR_SET_NAME, _PR_GET_NAME = 15, 16
_RLIMIT_CPU = 0
"""Past it the kernel kills with a signal that nothing stops: a program that could lower it could look killed from outside."""
_SIGNAL_OWNERS = (8, 10, 15)
"""fcntl F_SETOWN, F_SETSIG, F_SETOWN_EX: they make a pipe send any signal to any process of the same user."""
_FOREIGN_IOCTLS = (0x8901, 0x8902, 0x5412)
"""FIOSETOWN, SIOCSPGRP: the same for sockets. TIOCSTI: types into a terminal."""


def _table(text: str) -> dict[str, int]:
    """Names and this machine's numbers, from a list of `name x86_64 aarch64`; "-" where a machine has none."""
    rows = (row.split() for row in text.split(","))
    return {row[0]: int(row[1 + COLUMN]) for row in rows if COLUMN >= 0 and row[1 + COLUMN] != "-"}


ALWAYS = _table(
    """
    read 0 63, write 1 64, open 2 -, close 3 57, stat 4 -, fstat 5 80, lstat 6 -, poll 7 -, lseek 8 62, mmap 9 222,
    mprotect 10 226, munmap 11 215, brk 12 214, rt_sigaction 13 134, rt_sigprocmask 14 135, rt_sigreturn 15 139,
    pread64 17 67, pwrite64 18 68, readv 19 65, writev 20 66, access 21 -, pipe 22 -, select 23 -, sched_yield 24
    124, mremap 25 216, msync 26 227, mincore 27 232, madvise 28 233, dup 32 23, dup2 33 -, pause 34 -, nanosleep 35
    101, getitimer 36 102, alarm 37 -, setitimer 38 103, getpid 39 172, sendfile 40 71, sendto 44 206, recvfrom 45
    207, recvmsg 47 212, shutdown 48 210, getsockname 51 204, getpeername 52 205, setsockopt 54 208,
    getsockopt 55 209, exit 60 93, uname 63 160, flock 73 32, fsync 74 82, fdatasync 75 83, ftruncate 77 46,
    getdents 78 -, getcwd 79 17, chdir 80 49, fchdir 81 50, rename 82 -, mkdir 83 -, rmdir 84 -, creat 85 -, link 86
    -, unlink 87 -, symlink 88 -, readlink 89 -, umask 95 166, gettimeofday 96 169, getrlimit 97 163, getrusage 98
    165, sysinfo 99 179, times 100 153, getuid 102 174, getgid 104 176, geteuid 107 175, getegid 108 177, getppid
    110 173, getpgrp 111 -, getgroups 115 158, getresuid 118 148, getresgid 120 150, rt_sigpending 127 136,
    rt_sigtimedwait 128 137, rt_sigsuspend 130 133, sigaltstack 131 132, statfs 137 43, fstatfs 138 44,
    sched_get_priority_max 146 125, sched_get_priority_min 147 126, mlock 149 228, munlock 150 229, arch_prctl 158
    -, gettid 186 178, readahead 187 213, getxattr 191 8, lgetxattr 192 9, fgetxattr 193 10,
    listxattr 194 11, llistxattr 195 12, flistxattr 196 13, time 201 -, futex 202 98, epoll_create 213 -, getdents64
    217 61, set_tid_address 218 96, restart_syscall 219 128, fadvise64 221 223, timer_create 222 107, timer_settime
    223 110, timer_gettime 224 108, timer_getoverrun 225 109, timer_delete 226 111, clock_gettime 228 113,
    clock_getres 229 114, clock_nanosleep 230 115, exit_group 231 94, epoll_wait 232 -, epoll_ctl 233 21, openat 257
    56, mkdirat 258 34, newfstatat 262 79, unlinkat 263 35, renameat 264 38, linkat 265 37, symlinkat 266 36,
    readlinkat 267 78, faccessat 269 48, pselect6 270 72, ppoll 271 73, set_robust_list 273 99, splice 275 76, tee
    276 77, sync_file_range 277 84, epoll_pwait 281 22, signalfd 282 -, timerfd_create 283 85, eventfd 284 -,
    fallocate 285 47, timerfd_settime 286 86, timerfd_gettime 287 87, signalfd4 289 74, eventfd2 290 19,
    epoll_create1 291 20, dup3 292 24, pipe2 293 59, preadv 295 69, pwritev 296 70, recvmmsg 299 243, getcpu 309 168, renameat2 316 276, getrandom 318 278, membarrier 324 283, mlock2 325 284, copy_file_range
    326 285, preadv2 327 286, pwritev2 328 287, statx 332 291, rseq 334 293, close_range 436 436, openat2 437 437,
    faccessat2 439 439, epoll_pwait2 441 441, futex_waitv 449 449
    """
)
METADATA = _table(
    """
    truncate 76 45, chmod 90 -, fchmod 91 52, utime 132 -, utimes 235 -, futimesat 261 -, fchmodat 268 53, utimensat
    280 88
    """
)
"""What changes files without opening them: Landlock does not know these, so only a root of its own may allow them."""
OWN = _table(
    """
    getpgid 121 155, getsid 124 156, sched_getparam 143 121, sched_getscheduler 145 120, sched_rr_get_interval 148
    127, sched_setaffinity 203 122, sched_getaffinity 204 123
    """
)
"""First argument: a process. Only 0 (oneself) or the own id."""
SIGNALS = _table(
    """
    kill 62 129, rt_sigqueueinfo 129 138, tkill 200 130, tgkill 234 131, rt_tgsigqueueinfo 297 240
    """
)
"""First argument: a process. Allowed in a pid namespace of its own; elsewhere only to oneself."""
PROCESSES = _table(
    """
    fork 57 -, vfork 58 -, execve 59 221, wait4 61 260, setpgid 109 154, setsid 112 157, waitid 247 95, execveat 322
    281, sendmsg 46 211, sendmmsg 307 269
    """
)
"""Making, running and waiting for children. Messages can pass on descriptors, which outlive the process while they are in flight."""
CHECKED = _table(
    """
    ioctl 16 29, socketpair 53 199, clone 56 220, fcntl 72 25, prctl 157 167, setrlimit 160 164, prlimit64 302 261,
    clone3 435 435
    """
)
"""Allowed for some arguments; see `_blocks`."""


class Filter:
    """A filter program; `install` puts it on the calling process, for good.

    `processes` adds fork, exec and wait. `signals` allows signals to other processes (for a pid namespace of its
    own). `metadata` allows chmod and the like (for a root folder of its own).
    """

    def __init__(self, *, processes: bool, signals: bool, metadata: bool) -> None:
        if COLUMN < 0:
            raise OSError(errno.ENOSYS, "the system calls of this kind of processor are not known")
        verdicts = dict.fromkeys(ALWAYS.values(), "allow")
        verdicts |= dict.fromkeys(METADATA.values(), "allow" if metadata else "eperm")
        verdicts |= dict.fromkeys(OWN.values(), "own or 0")
        verdicts |= dict.fromkeys(SIGNALS.values(), "allow" if signals else "own")
        verdicts |= dict.fromkeys(PROCESSES.values(), "allow" if processes else "eperm")
        verdicts |= {number: name for name, number in CHECKED.items()}
        blocks = _blocks(processes)
        starts: list[tuple[int, str]] = []
        for number in range(LAST_KNOWN + 2):
            verdict = verdicts.get(number, "eperm") if number <= LAST_KNOWN else "enosys"
            if not starts or starts[-1][1] != verdict:
                starts.append((number, verdict))
        code, self._id_at = _assemble(starts, blocks)
        self._code = ctypes.create_string_buffer(b"".join(struct.pack("<HBBI", *line) for line in code))
        self._program = struct.pack("<HxxxxxxQ", len(code), ctypes.addressof(self._code))

    def install(self, pid: int) -> None:
        """Needs no-new-privs. `pid` is the caller's id as the caller sees it."""
        for line in self._id_at:
            struct.pack_into("<I", self._code, 8 * line + 4, pid)
        call("seccomp", SECCOMP_SET_MODE_FILTER, 0, self._program)


_OWN_ID = -1


def _blocks(processes: bool) -> dict[str, list[Line]]:
    """What to do, by verdict. Each block ends in a return."""
    allow, eperm, enosys = ((_RETURN, 0, 0, value) for value in (ALLOW, ERRNO | errno.EPERM, ERRNO | errno.ENOSYS))
    first, second = (_LOAD, 0, 0, _ARG0), (_LOAD, 0, 0, _ARG1)
    clone = (
        [(_JSET, 0, 1, _NEW_NAMESPACES), eperm, allow] if processes else [(_JSET, 0, 1, _CLONE_THREAD), allow, eperm]
    )
    return {
        "allow": [allow],
        "eperm": [eperm],
        "enosys": [enosys],
        "own": [first, (_JEQ, 0, 1, _OWN_ID), allow, eperm],
        "own or 0": [first, (_JEQ, 1, 0, 0), (_JEQ, 0, 1, _OWN_ID), allow, eperm],
        "clone": [first, *clone],
        "clone3": [enosys],  # its flags lie in memory, where a filter cannot look; libc then uses clone
        "socketpair": [first, (_JEQ, 0, 3, _AF_UNIX), second, (_JSET, 1, 0, _CONNECTIONLESS), allow, eperm],
        "setrlimit": [first, (_JEQ, 1, 0, _RLIMIT_CPU), allow, eperm],
        "prlimit64": [
            first,
            (_JEQ, 1, 0, 0),
            (_JEQ, 0, 7, _OWN_ID),
            second,
            (_JEQ, 0, 4, _RLIMIT_CPU),
            (_LOAD, 0, 0, _ARG2),  # a limit to set, or none: then it only asks
            (_JEQ, 0, 3, 0),
            (_LOAD, 0, 0, _ARG2_HIGH),
            (_JEQ, 0, 1, 0),
            allow,
            eperm,
        ],
        "prctl": [first, (_JEQ, 1, 0, _PR_SET_NAME), (_JEQ, 0, 1, _PR_GET_NAME), allow, eperm],
        "fcntl": [second, *_none_of(_SIGNAL_OWNERS), allow, eperm],
        "ioctl": [second, *_none_of(_FOREIGN_IOCTLS), allow, eperm],
    }


def _none_of(values: tuple[int, ...]) -> list[Line]:
    """Jump over the next return if any of the values is met."""
    return [(_JEQ, len(values) - i, 0, value) for i, value in enumerate(values)]


def _assemble(starts: list[tuple[int, str]], blocks: dict[str, list[Line]]) -> tuple[list[Line], list[int]]:
    """Architecture check, search, blocks; and the lines whose operand is the caller's id."""
    head: list[Line] = [
        (_LOAD, 0, 0, _ARCH),
        (_JEQ, 1, 0, AUDIT_ARCH[COLUMN]),
        (_RETURN, 0, 0, KILL),
        (_LOAD, 0, 0, _NR),
    ]
    search = _search(starts)
    offsets: dict[str, int] = {}
    tail: list[Line] = []
    for name, block in blocks.items():
        offsets[name] = len(head) + len(search) + len(tail)
        tail += block
    middle: list[Line] = []
    for i, line in enumerate(search):
        if isinstance(line, str):
            middle.append((_JUMP, 0, 0, offsets[line] - (len(head) + i) - 1))
        else:
            middle.append(line)
    code = [*head, *middle, *tail]
    id_at = [i for i, line in enumerate(code) if line[3] == _OWN_ID]
    return [(op, yes, no, 0 if k == _OWN_ID else k) for op, yes, no, k in code], id_at


def _search(starts: list[tuple[int, str]]) -> list[Line | str]:
    """Lines that find the interval a call number is in; a verdict stands for the jump to its block."""
    if len(starts) == 1:
        return [starts[0][1]]
    half = len(starts) // 2
    low, high = _search(starts[:half]), _search(starts[half:])
    if len(low) <= 255:
        return [(_JGE, len(low), 0, starts[half][0]), *low, *high]
    # Too far for a conditional jump: hop over a long one.
    return [(_JGE, 0, 1, starts[half][0]), (_JUMP, 0, 0, len(low)), *low, *high]
