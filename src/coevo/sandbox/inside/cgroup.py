"""CPU time of everything a worker starts, from a control group: the one account that a child cannot hide from.

Needs cgroup v2 (no controller) and the right to make a group; else `NONE`, and only processes that were waited for count.
"""

from __future__ import annotations

import contextlib
import errno
import os
import time


class Account:
    """A group that this process has joined. `usage` is CPU seconds so far, or None without a group."""

    def __init__(self, folder: str, home: str) -> None:
        self._folder = folder
        self._home = home
        self._stat = os.open(f"{folder}/cpu.stat", os.O_RDONLY | os.O_CLOEXEC) if folder else -1

    @property
    def counts(self) -> bool:
        return self._stat >= 0

    def usage(self) -> float:
        """CPU seconds of the group so far; 0 without one."""
        if self._stat < 0:
            return 0.0
        return int(os.pread(self._stat, 64, 0).split(b"\n", 1)[0].split()[1]) / 1e6

    def leave(self) -> None:
        """Go back to where this process came from, and remove the group."""
        if not self._folder:
            return
        with contextlib.suppress(OSError):
            _enter(self._home)
        _remove(self._folder)


NONE = Account("", "")


def join(name: str) -> Account:
    """Make a group of that name below one's own, and enter it. `NONE` where that cannot be."""
    home = _home()
    if home is None:
        return NONE
    folder = f"{home}/{name}"
    try:
        os.mkdir(folder)
    except OSError:
        return NONE
    try:
        account = Account(folder, home)
        account.usage()
        _enter(folder)
    except (OSError, ValueError, IndexError):
        with contextlib.suppress(OSError):
            os.rmdir(folder)
        return NONE
    return account


def remove(name: str) -> None:
    """Remove the group of that name below one's own, if it is there."""
    _remove(f"{_home() or ''}/{name}")


def _remove(folder: str) -> None:
    """What was killed in it may take a moment to go."""
    for _ in range(200):
        try:
            os.rmdir(folder)
        except OSError as e:
            if e.errno == errno.EBUSY:
                time.sleep(0.01)
                continue
        return


def _enter(folder: str) -> None:
    with open(f"{folder}/cgroup.procs", "w") as file:
        file.write("0")


def _home() -> str | None:
    try:
        with open("/proc/self/mounts") as mounts:
            roots = [line.split()[1] for line in mounts if line.split()[2] == "cgroup2"]
        with open("/proc/self/cgroup") as groups:
            own = [line.strip()[3:] for line in groups if line.startswith("0::")]
    except OSError:
        return None
    return roots[0] + own[0].rstrip("/") if roots and own else None
