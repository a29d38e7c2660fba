"""The walls: a root folder of its own, Landlock, resource limits."""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import resource
import signal
import socket
import stat
import struct

import shown
import syscalls as sc

SCRATCH = "/tmp"
USER = 1000
"""The user id a candidate sees; outside it is an id that is not 0."""

_MOUNT_FLAGS = {
    os.ST_NOSUID: sc.MS_NOSUID,
    os.ST_NODEV: sc.MS_NODEV,
    os.ST_NOEXEC: sc.MS_NOEXEC,
    os.ST_NOATIME: sc.MS_NOATIME,
    os.ST_NODIRATIME: sc.MS_NODIRATIME,
    os.ST_RELATIME: sc.MS_RELATIME,
}


def raise_root(paths: list[str], packages: list[str]) -> None:
    """Make a read-only root that shows only `paths`, and move into it. Needs a mount namespace of one's own.

    Folders inside them that hold other people's packages are covered. `packages` show in `PACKAGES`. Takes on the
    mapped user between opening what is shown (which only the maker's user may be able to) and making the root.
    """
    opened = [(_open(path), path) for path in [*paths, *shown.DEVICES] if os.path.exists(path)]
    opened += [(_open(path), f"{shown.PACKAGES}/{os.path.basename(path)}") for path in packages]
    covered = shown.foreign_packages(paths)
    links = {path: os.readlink(path) for path in shown.LINKS if os.path.islink(path)}
    os.setresgid(USER, USER, USER)
    os.setresuid(USER, USER, USER)
    socket.sethostname("sandbox")
    sc.mount(None, "/", flags=sc.MS_REC | sc.MS_PRIVATE)
    sc.mount("root", SCRATCH, "tmpfs", sc.MS_NOSUID, "size=1m,mode=0755")
    root = SCRATCH
    for path, target in links.items():
        os.symlink(target, root + path)
    for source, path in opened:
        _show(source, root + path)
        os.close(source)
    for path in covered:
        sc.mount("hidden", root + path, "tmpfs", sc.MS_NOSUID | sc.MS_NODEV, "size=4k,mode=0755")
        sc.mount(None, root + path, flags=sc.MS_REMOUNT | sc.MS_BIND | sc.MS_RDONLY | sc.MS_NOSUID | sc.MS_NODEV)
    os.makedirs(root + SCRATCH)
    os.symlink(SCRATCH, root + "/dev/shm")
    os.chdir(root)
    sc.pivot_root(".", ".")
    sc.umount(".", sc.MNT_DETACH)
    os.chdir("/")
    sc.mount(None, "/", flags=sc.MS_REMOUNT | sc.MS_BIND | sc.MS_RDONLY | sc.MS_NOSUID)


def _open(path: str) -> int:
    return os.open(path, os.O_PATH | os.O_CLOEXEC)


def _show(source: int, target: str) -> None:
    """Bind what `source` is open on at `target`, read-only."""
    os.makedirs(os.path.dirname(target), exist_ok=True)
    if stat.S_ISDIR(os.fstat(source).st_mode):
        os.makedirs(target, exist_ok=True)
    else:
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))
    sc.mount(f"/proc/self/fd/{source}", target, flags=sc.MS_BIND | sc.MS_REC)
    kept = os.statvfs(target).f_flag
    flags = sum(flag for bit, flag in _MOUNT_FLAGS.items() if kept & bit)
    if not stat.S_ISCHR(os.stat(target).st_mode):
        flags |= sc.MS_NODEV
    # A user namespace may add such flags, but not take away what the original mount had.
    sc.mount(None, target, flags=flags | sc.MS_REMOUNT | sc.MS_BIND | sc.MS_RDONLY | sc.MS_NOSUID)


def private_scratch(size: int) -> None:
    """A fresh memory file system at /tmp, for this mount namespace alone. `size` in bytes."""
    sc.mount(
        "scratch", SCRATCH, "tmpfs", sc.MS_NOSUID | sc.MS_NODEV, f"size={max(size, 4096)},nr_inodes=4096,mode=0700"
    )


# Landlock: uapi/linux/landlock.h. Rights by bit; which exist depends on the ABI.
_READ, _EXECUTE, _WRITE_FILE = (1 << 2) | (1 << 3), 1 << 0, 1 << 1
_RIGHTS = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1}
_ALL_RIGHTS = (1 << 16) - 1
_MAKE_DEVICE = (1 << 6) | (1 << 11)
_IOCTL_DEVICE = 1 << 15
_TCP, _SCOPES = 0b11, 0b11


LANDLOCK_ALONE = 3
"""From this ABI on, Landlock covers every way to change a file's content; the filter denies what it does not know."""
LANDLOCK_SIGNALS = 6
"""From this ABI on, it keeps signals inside."""


def landlock_abi() -> int:
    """The kernel's Landlock version; 0 where there is none."""
    try:
        return sc.call("landlock_create_ruleset", None, 0, 1)
    except OSError:
        return 0


class Landlock:
    """Rules: read everything that is visible, write in the scratch folder (and to /dev/null), reach nothing else."""

    def __init__(self, *, execute: bool) -> None:
        abi = landlock_abi()
        if abi < 1:
            raise OSError(errno.ENOSYS, "Landlock is not available")
        self.abi = abi
        rights = _RIGHTS.get(abi, _ALL_RIGHTS)
        fields = [rights, _TCP if abi >= 4 else 0, _SCOPES if abi >= 6 else 0]
        self._attributes = struct.pack(
            f"<{1 if abi < 4 else 2 if abi < 6 else 3}Q", *fields[: 1 if abi < 4 else 2 if abi < 6 else 3]
        )
        self._read = _READ | (_EXECUTE if execute else 0)
        self._write = rights & ~_MAKE_DEVICE & ~_IOCTL_DEVICE & ~(0 if execute else _EXECUTE)
        self._null = _WRITE_FILE | (1 << 2)

    def ruleset(self, readable: list[str], writable: str | None) -> int:
        """A descriptor of the rules, for `enforce`. Rules hold for what is mounted when they are made."""
        ruleset = sc.call("landlock_create_ruleset", self._attributes, len(self._attributes), 0)
        for path in readable:
            self._allow(ruleset, path, self._read)
        self._allow(ruleset, "/dev/null", self._null)
        if writable is not None:
            self._allow(ruleset, writable, self._write)
        return ruleset

    @staticmethod
    def enforce(ruleset: int) -> None:
        """Bind the calling process, for good. Needs no-new-privs."""
        sc.call("landlock_restrict_self", ruleset, 0)
        os.close(ruleset)

    def _allow(self, ruleset: int, path: str, rights: int) -> None:
        try:
            where = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except FileNotFoundError:
            return
        if not stat.S_ISDIR(os.fstat(where).st_mode):
            rights &= _EXECUTE | _WRITE_FILE | (1 << 2) | (1 << 14)
        sc.call("landlock_add_rule", ruleset, 1, struct.pack("<Qi", rights, where), 0)
        os.close(where)


class AddressSpace:
    """How much address space this process has: what a child starts from."""

    def __init__(self) -> None:
        self._page = resource.getpagesize()
        try:
            self._statm = os.open("/proc/self/statm", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            self._statm = -1  # no /proc here

    def size(self) -> int:
        """In bytes."""
        if self._statm >= 0:
            return int(os.pread(self._statm, 64, 0).split(None, 1)[0]) * self._page
        return self._by_trial()

    def _by_trial(self) -> int:
        """The lowest limit under which a page can still be had, by bisection."""
        soft, hard = resource.getrlimit(resource.RLIMIT_AS)
        low, high = 0, 1 << 40
        try:
            while high - low > self._page:
                middle = (low + high) // 2
                resource.setrlimit(resource.RLIMIT_AS, (middle, hard))
                try:
                    mmap.mmap(-1, self._page).close()
                    high = middle
                except (OSError, MemoryError):
                    low = middle
        finally:
            resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        return high


def become(uid: int, gid: int) -> None:
    """Leave root behind, for good: the kernel does not count root's processes."""
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)


def end_orphans(pid: int) -> None:
    """Kill and reap what a job has left, for rungs without a pid namespace. This process is its subreaper."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    while True:
        with open(f"/proc/self/task/{os.getpid()}/children") as file:
            left = [int(word) for word in file.read().split()]
        if not left:
            return
        for orphan in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(orphan, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(orphan, 0)


def limit(kind: int, soft: int, hard: int | None = None) -> None:
    """Lower a resource limit; never above the hard limit that already holds."""
    ceiling = resource.getrlimit(kind)[1]
    wanted = soft if hard is None else hard
    if ceiling != resource.RLIM_INFINITY:
        soft, wanted = min(soft, ceiling), min(wanted, ceiling)
    resource.setrlimit(kind, (soft, wanted))


THREADS = 64
_MAIN_STACK = 64 << 20


def limit_worker() -> None:
    """The limits that are the same for all jobs: children inherit them."""
    # Threads took their default stack size when Python started; this raises only the main thread's.
    limit(resource.RLIMIT_STACK, _MAIN_STACK)
    limit(resource.RLIMIT_NOFILE, 64)
    limit(resource.RLIMIT_CORE, 0)
    limit(resource.RLIMIT_MSGQUEUE, 0)
    limit(resource.RLIMIT_MEMLOCK, 0)
    limit(resource.RLIMIT_SIGPENDING, 256)


def limit_job(*, address_space: int, cpu_s: float, file_bytes: int, tasks: int) -> None:
    """The limits of one execution. The CPU limit is a backstop: the kernel fires it up to a fifth early."""
    limit(resource.RLIMIT_AS, address_space)
    limit(resource.RLIMIT_CPU, int(cpu_s * 1.3) + 2)
    limit(resource.RLIMIT_FSIZE, file_bytes)
    limit(resource.RLIMIT_NPROC, tasks)
