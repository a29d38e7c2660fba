"""One writer per run: a lock the kernel drops with the process that holds it, however that process ends."""

from __future__ import annotations

import fcntl
import os
import socket
import time
from contextlib import suppress
from pathlib import Path

from coevo.errors import RunLocked

NAME = "run.lock"
_TRIES, _PAUSE_S = 10, 0.05
"""A reader that looks who holds the lock takes it for an instant; a writer tries again past that."""


class WriterLock:
    """An exclusive `flock` on `run.lock`; the file says who holds it and is never removed."""

    def __init__(self, folder: Path) -> None:
        """Take the lock, or raise `RunLocked` that names the holder. OSError passes (read-only folder, ...)."""
        self._fd = os.open(folder / NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        for left in reversed(range(_TRIES)):
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if left:
                    time.sleep(_PAUSE_S)
                    continue
                who = _read_holder(self._fd) or "another process"
                os.close(self._fd)
                raise RunLocked(
                    f"run {folder} is being written by {who}. Wait for it or stop it, then try again; "
                    "reading (status, export) works meanwhile"
                ) from None
        text = f"process {os.getpid()} on {socket.gethostname()} since {time.strftime('%Y-%m-%d %H:%M:%S')}"
        with suppress(OSError):  # The lock holds even where a full disk keeps us from saying whose it is.
            os.ftruncate(self._fd, 0)
            os.pwrite(self._fd, text.encode(), 0)

    def release(self) -> None:
        """Give the lock back. May be called more than once."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def holder(folder: Path) -> str | None:
    """Who is writing to the run in `folder` right now ("process 12 on host since ..."), or None."""
    try:
        fd = os.open(folder / NAME, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        return None
    except BlockingIOError:
        return _read_holder(fd) or "another process"
    finally:
        os.close(fd)


def _read_holder(fd: int) -> str:
    return os.pread(fd, 500, 0).decode(errors="replace").strip()
