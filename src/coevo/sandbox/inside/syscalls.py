"""The few system calls Python has no name for, by ctypes. Linux on x86_64 and aarch64.

Numbers are from the kernel's `asm/unistd_64.h` and `asm-generic/unistd.h`; structures from its `uapi` headers.
"""

from __future__ import annotations

import ctypes
import errno
import os
import signal
import struct

MACHINE = os.uname().machine
COLUMN = {"x86_64": 0, "aarch64": 1}.get(MACHINE, -1)
"""Which number of a pair in the tables is this machine's; -1: neither."""

_NUMBERS = {
    "clone": (56, 220),
    "prctl": (157, 167),
    "capset": (126, 91),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "seccomp": (317, 277),
    "close_range": (436, 436),
    "memfd_create": (319, 279),
    "landlock_create_ruleset": (444, 444),
    "landlock_add_rule": (445, 445),
    "landlock_restrict_self": (446, 446),
}

CLONE_PIDFD = 0x1000
CLONE_NEWNS = 0x20000
CLONE_NEWCGROUP = 0x02000000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000
ALL_NAMESPACES = CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_REMOUNT, MS_NOATIME, MS_NODIRATIME = 32, 1024, 2048
MS_BIND, MS_REC, MS_PRIVATE, MS_RELATIME = 4096, 16384, 1 << 18, 1 << 21
MNT_DETACH = 2

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_CAPBSET_DROP = 1, 4, 22, 24
PR_SET_NO_NEW_PRIVS, PR_SET_CHILD_SUBREAPER, PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL = 38, 36, 47, 4

# PyDLL keeps the interpreter lock across the call: a clone must not come back in the child without it.
_libc = ctypes.PyDLL(None, use_errno=True)
_syscall = _libc.syscall
_syscall.restype = ctypes.c_long
_prctl = _libc.prctl
_prctl.argtypes = [ctypes.c_int] + [ctypes.c_ulong] * 4


def call(name: str, *args: int | bytes | ctypes.Array[ctypes.c_char] | None) -> int:
    """One system call. Raises `OSError` that names it."""
    if COLUMN < 0:
        raise OSError(errno.ENOSYS, f"system calls of {MACHINE} are not known")
    result = _syscall(ctypes.c_long(_NUMBERS[name][COLUMN]), *(_word(arg) for arg in args))
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{name}: {os.strerror(code)}")
    return result


def _word(arg: int | bytes | ctypes.Array[ctypes.c_char] | None) -> object:
    return ctypes.c_long(arg) if isinstance(arg, int) else arg


def prctl(option: int, a: int = 0, b: int = 0, c: int = 0, d: int = 0) -> int:
    result = _prctl(option, a, b, c, d)
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"prctl {option}: {os.strerror(code)}")
    return result


def clone(flags: int) -> tuple[int, int]:
    """Fork with namespace flags: (0, -1) in the child, (pid, pidfd) in the parent.

    A raw clone runs none of Python's at-fork hooks: the caller has one thread, and the child needs none of them.
    """
    pidfd = ctypes.c_int(-1)
    number = ctypes.c_long(_NUMBERS["clone"][COLUMN])
    word = ctypes.c_ulong(flags | CLONE_PIDFD | signal.SIGCHLD)
    pid = _syscall(number, word, ctypes.c_long(0), ctypes.byref(pidfd), ctypes.c_long(0), ctypes.c_long(0))
    if pid < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"clone: {os.strerror(code)}")
    return pid, pidfd.value if pid else -1


def mount(source: str | None, target: str, kind: str | None = None, flags: int = 0, options: str | None = None) -> None:
    texts = [None if text is None else text.encode() for text in (source, target, kind)]
    try:
        call("mount", *texts, flags, None if options is None else options.encode())
    except OSError as e:
        raise OSError(e.errno, f"mount {source or kind} on {target}: {os.strerror(e.errno or 0)}") from None


def umount(target: str, flags: int = 0) -> None:
    call("umount2", target.encode(), flags)


def pivot_root(new: str, old: str) -> None:
    call("pivot_root", new.encode(), old.encode())


def close_from(first: int) -> None:
    """Close every descriptor from `first` on."""
    call("close_range", first, 0x7FFFFFFF, 0)


_NO_CAPABILITIES = struct.pack("<Ii", 0x20080522, 0), struct.pack("<6I", 0, 0, 0, 0, 0, 0)


def drop_capabilities() -> None:
    """Empty the effective, permitted and inheritable sets of this thread."""
    call("capset", *_NO_CAPABILITIES)


def drop_bounding_set() -> None:
    """Make it impossible to gain a capability by executing a file. What is held now stays."""
    for capability in range(64):
        try:
            prctl(PR_CAPBSET_DROP, capability)
        except OSError as e:
            if e.errno == errno.EINVAL:  # past the kernel's last capability
                break
            raise
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)


def cpu_clock(pid: int) -> int:
    """The clock id of the CPU time (all threads) of a process, for `time.clock_gettime` (kernel: posix-timers.h)."""
    return (~pid << 3) | 2
