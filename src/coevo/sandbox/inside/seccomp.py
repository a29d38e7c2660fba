"""The system call filter, as classic BPF made by hand.

An allow list: what is not on it fails with EPERM, what is newer than it with ENOSYS, so that libraries take their
fallbacks. The filter is a binary search over intervals of call numbers: it is short to run and, what
counts per fork, short for the kernel to pre-compute.
"""

from __future__ import annotations

import ctypes
import errno
import struct

from syscalls import COLUMN, PR_SET_SECCOMP, call, prctl

SECCOMP_SET_MODE_FILTER = 1
ALLOW, KILL, ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
AUDIT_ARCH = (0xC000003E, 0xC00000B7)
_LOAD, _JEQ, _JGE, _JSET, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NR, _ARCH, _ARG0 = 0, 4, 16
_NEW_NAMESPACES = 0x7E020000
_CLONE_THREAD = 0x10000
_AF_UNIX = 1
_PR_SET_NAME, _PR_GET_NAME = 15, 16
_LAST_KNOWN = 462

# name: (x86_64, aarch64); None where the machine has no such call.
ALWAYS: dict[str, tuple[int | None, int | None]] = {
    "read": (0, 63),
    "write": (1, 64),
    "open": (2, None),
    "close": (3, 57),
    "stat": (4, None),
    "fstat": (5, 80),
    "lstat": (6, None),
    "poll": (7, None),
    "lseek": (8, 62),
    "mmap": (9, 222),
    "mprotect": (10, 226),
    "munmap": (11, 215),
    "brk": (12, 214),
    "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139),
    "ioctl": (16, 29),
    "pread64": (17, 67),
    "pwrite64": (18, 68),
    "readv": (19, 65),
    "writev": (20, 66),
    "access": (21, None),
    "pipe": (22, None),
    "select": (23, None),
    "sched_yield": (24, 124),
    "mremap": (25, 216),
    "msync": (26, 227),
    "mincore": (27, 232),
    "madvise": (28, 233),
    "dup": (32, 23),
    "dup2": (33, None),
    "pause": (34, None),
    "nanosleep": (35, 101),
    "getitimer": (36, 102),
    "alarm": (37, None),
    "setitimer": (38, 103),
    "getpid": (39, 172),
    "sendfile": (40, 71),
    "sendto": (44, 206),
    "recvfrom": (45, 207),
    "sendmsg": (46, 211),
    "recvmsg": (47, 212),
    "shutdown": (48, 210),
    "getsockname": (51, 204),
    "getpeername": (52, 205),
    "setsockopt": (54, 208),
    "getsockopt": (55, 209),
    "exit": (60, 93),
    "uname": (63, 160),
    "fcntl": (72, 25),
    "flock": (73, 32),
    "fsync": (74, 82),
    "fdatasync": (75, 83),
    "truncate": (76, 45),
    "ftruncate": (77, 46),
    "getdents": (78, None),
    "getcwd": (79, 17),
    "chdir": (80, 49),
    "fchdir": (81, 50),
    "rename": (82, None),
    "mkdir": (83, None),
    "rmdir": (84, None),
    "creat": (85, None),
    "link": (86, None),
    "unlink": (87, None),
    "symlink": (88, None),
    "readlink": (89, None),
    "chmod": (90, None),
    "fchmod": (91, 52),
    "umask": (95, 166),
    "gettimeofday": (96, 169),
    "getrlimit": (97, 163),
    "getrusage": (98, 165),
    "sysinfo": (99, 179),
    "times": (100, 153),
    "getuid": (102, 174),
    "getgid": (104, 176),
    "geteuid": (107, 175),
    "getegid": (108, 177),
    "getppid": (110, 173),
    "getpgrp": (111, None),
    "getgroups": (115, 158),
    "getresuid": (118, 148),
    "getresgid": (120, 150),
    "getpgid": (121, 155),
    "getsid": (124, 156),
    "rt_sigpending": (127, 136),
    "rt_sigtimedwait": (128, 137),
    "rt_sigsuspend": (130, 133),
    "sigaltstack": (131, 132),
    "utime": (132, None),
    "statfs": (137, 43),
    "fstatfs": (138, 44),
    "getpriority": (140, 141),
    "setpriority": (141, 140),
    "sched_getparam": (143, 121),
    "sched_getscheduler": (145, 120),
    "sched_get_priority_max": (146, 125),
    "sched_get_priority_min": (147, 126),
    "sched_rr_get_interval": (148, 127),
    "mlock": (149, 228),
    "munlock": (150, 229),
    "mlockall": (151, 230),
    "munlockall": (152, 231),
    "arch_prctl": (158, None),
    "setrlimit": (160, 164),
    "gettid": (186, 178),
    "readahead": (187, 213),
    "getxattr": (191, 8),
    "lgetxattr": (192, 9),
    "fgetxattr": (193, 10),
    "listxattr": (194, 11),
    "llistxattr": (195, 12),
    "flistxattr": (196, 13),
    "time": (201, None),
    "futex": (202, 98),
    "sched_setaffinity": (203, 122),
    "sched_getaffinity": (204, 123),
    "epoll_create": (213, None),
    "getdents64": (217, 61),
    "set_tid_address": (218, 96),
    "restart_syscall": (219, 128),
    "fadvise64": (221, 223),
    "timer_create": (222, 107),
    "timer_settime": (223, 110),
    "timer_gettime": (224, 108),
    "timer_getoverrun": (225, 109),
    "timer_delete": (226, 111),
    "clock_gettime": (228, 113),
    "clock_getres": (229, 114),
    "clock_nanosleep": (230, 115),
    "exit_group": (231, 94),
    "epoll_wait": (232, None),
    "epoll_ctl": (233, 21),
    "utimes": (235, None),
    "openat": (257, 56),
    "mkdirat": (258, 34),
    "futimesat": (261, None),
    "newfstatat": (262, 79),
    "unlinkat": (263, 35),
    "renameat": (264, 38),
    "linkat": (265, 37),
    "symlinkat": (266, 36),
    "readlinkat": (267, 78),
    "fchmodat": (268, 53),
    "faccessat": (269, 48),
    "pselect6": (270, 72),
    "ppoll": (271, 73),
    "set_robust_list": (273, 99),
    "get_robust_list": (274, 100),
    "splice": (275, 76),
    "tee": (276, 77),
    "sync_file_range": (277, 84),
    "utimensat": (280, 88),
    "epoll_pwait": (281, 22),
    "signalfd": (282, None),
    "timerfd_create": (283, 85),
    "eventfd": (284, None),
    "fallocate": (285, 47),
    "timerfd_settime": (286, 86),
    "timerfd_gettime": (287, 87),
    "signalfd4": (289, 74),
    "eventfd2": (290, 19),
    "epoll_create1": (291, 20),
    "dup3": (292, 24),
    "pipe2": (293, 59),
    "preadv": (295, 69),
    "pwritev": (296, 70),
    "recvmmsg": (299, 243),
    "prlimit64": (302, 261),
    "sendmmsg": (307, 269),
    "getcpu": (309, 168),
    "renameat2": (316, 276),
    "getrandom": (318, 278),
    "membarrier": (324, 283),
    "mlock2": (325, 284),
    "copy_file_range": (326, 285),
    "preadv2": (327, 286),
    "pwritev2": (328, 287),
    "statx": (332, 291),
    "rseq": (334, 293),
    "close_range": (436, 436),
    "openat2": (437, 437),
    "faccessat2": (439, 439),
    "epoll_pwait2": (441, 441),
    "futex_waitv": (449, 449),
}
SIGNALS: dict[str, tuple[int | None, int | None]] = {
    "kill": (62, 129),
    "rt_sigqueueinfo": (129, 138),
    "tkill": (200, 130),
    "tgkill": (234, 131),
    "rt_tgsigqueueinfo": (297, 240),
}
PROCESSES: dict[str, tuple[int | None, int | None]] = {
    "fork": (57, None),
    "vfork": (58, None),
    "execve": (59, 221),
    "wait4": (61, 260),
    "setpgid": (109, 154),
    "setsid": (112, 157),
    "waitid": (247, 95),
    "execveat": (322, 281),
}
CHECKED: dict[str, tuple[int | None, int | None]] = {
    "socketpair": (53, 199),
    "clone": (56, 220),
    "prctl": (157, 167),
    "clone3": (435, 435),
}


class Filter:
    """A filter program. `install` puts it on the calling process, for good.

    `processes` adds fork, exec and wait. Without `own_pid_namespace`, signals may only go to the process itself, whose
    id is patched in by `install`.
    """

    def __init__(self, *, processes: bool, own_pid_namespace: bool) -> None:
        if COLUMN < 0:
            raise OSError(errno.ENOSYS, "no system call filter for this machine")
        self._pid_at: list[int] = []
        self._code = self._program(processes, own_pid_namespace)
        self._buffer = ctypes.create_string_buffer(b"".join(struct.pack("<HBBI", *line) for line in self._code))
        self._header = struct.pack("<HxxxxxxQ", len(self._code), ctypes.addressof(self._buffer))

    def install(self, pid: int) -> None:
        """Needs no-new-privs. `pid` is the caller's id as it sees itself."""
        for line in self._pid_at:
            struct.pack_into("<I", self._buffer, 8 * line + 4, pid)
        try:
            call("seccomp", SECCOMP_SET_MODE_FILTER, 0, self._header)
        except OSError as e:
            if e.errno != errno.ENOSYS:
                raise
            prctl(PR_SET_SECCOMP, 2, ctypes.addressof(ctypes.create_string_buffer(self._header)))

    def _program(self, processes: bool, own_pid_namespace: bool) -> list[tuple[int, int, int, int]]:
        """Verdict per call number, then intervals, then code."""
        verdict: dict[int, str] = {}
        for table, label in (
            (ALWAYS, "allow"),
            (SIGNALS, "allow" if own_pid_namespace else "self"),
            (PROCESSES, "allow" if processes else "eperm"),
        ):
            verdict.update({number: label for pair in table.values() if (number := pair[COLUMN]) is not None})
        for name, label in (
            ("clone", "fork" if processes else "thread"),
            ("clone3", "enosys"),
            ("socketpair", "unix"),
            ("prctl", "name"),
        ):
            verdict[CHECKED[name][COLUMN] or 0] = label
        starts: list[tuple[int, str]] = []
        for number in range(_LAST_KNOWN + 2):
            label = verdict.get(number, "eperm") if number <= _LAST_KNOWN else "enosys"
            if not starts or starts[-1][1] != label:
                starts.append((number, label))
        assembler = _Assembler()
        code = assembler.build(starts)
        self._pid_at = assembler.pid_at
        return code


class _Assembler:
    """Lays out: architecture check, binary search, and one block per verdict."""

    def __init__(self) -> None:
        self.pid_at: list[int] = []

    def build(self, starts: list[tuple[int, str]]) -> list[tuple[int, int, int, int]]:
        blocks, offsets = self._blocks()
        search = self._search(starts)
        head = [
            (_LOAD, 0, 0, _ARCH),
            (_JEQ, 1, 0, AUDIT_ARCH[COLUMN]),
            (_RETURN, 0, 0, KILL),
            (_LOAD, 0, 0, _NR),
        ]
        base = len(head) + len(search)
        code = list(head)
        for i, (op, yes, no, k) in enumerate(search):
            here = len(head) + i
            # A string names a block; the distance is counted from the next line, and may pass 255: then only `ja` reaches.
            if isinstance(yes, str):
                code.append((0x05, 0, 0, base + offsets[yes] - here - 1))
            else:
                code.append((op, yes, no, k))
        self.pid_at = [base + line for line in self.pid_at]
        return code + blocks

    def _search(self, starts: list[tuple[int, str]]) -> list[tuple[int, int | str, int, int]]:
        if len(starts) == 1:
            return [(0x05, starts[0][1], 0, 0)]
        middle = len(starts) // 2
        low, high = self._search(starts[:middle]), self._search(starts[middle:])
        if len(low) <= 255:
            return [(_JGE, len(low), 0, starts[middle][0]), *low, *high]
        # Out of reach for a conditional jump: hop over a long one.
        return [(_JGE, 0, 1, starts[middle][0]), (0x05, 0, 0, len(low)), *low, *high]

    def _blocks(self) -> tuple[list[tuple[int, int, int, int]], dict[str, int]]:
        allow, eperm = (_RETURN, 0, 0, ALLOW), (_RETURN, 0, 0, ERRNO | errno.EPERM)
        first = (_LOAD, 0, 0, _ARG0)
        table: dict[str, list[tuple[int, int, int, int]]] = {
            "allow": [allow],
            "eperm": [eperm],
            "enosys": [(_RETURN, 0, 0, ERRNO | errno.ENOSYS)],
            "thread": [first, (_JSET, 0, 1, _CLONE_THREAD), allow, eperm],
            "fork": [first, (_JSET, 0, 1, _NEW_NAMESPACES), eperm, allow],
            "unix": [first, (_JEQ, 0, 1, _AF_UNIX), allow, eperm],
            "name": [first, (_JEQ, 1, 0, _PR_SET_NAME), (_JEQ, 0, 1, _PR_GET_NAME), allow, eperm],
            "self": [first, (_JEQ, 0, 1, 0), allow, eperm],
        }
        code: list[tuple[int, int, int, int]] = []
        offsets: dict[str, int] = {}
        for name, block in table.items():
            offsets[name] = len(code)
            if name == "self":
                self.pid_at.append(len(code) + 1)
            code += block
        return code, offsets
