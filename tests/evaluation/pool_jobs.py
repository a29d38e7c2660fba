"""Setups and jobs for test_pool.py: a worker imports them by name."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from coevo.errors import WallsError


class State:
    """A state that tells when it is closed."""

    def __init__(self, note: str | None = None) -> None:
        self.note = note
        self.calls = 0

    def close(self) -> None:
        if self.note:
            with open(self.note, "a") as file:
                file.write(f"closed {os.getpid()}\n")


def setup(note: str | None = None) -> State:
    return State(note)


def setup_number(value: int) -> int:
    return value


def bad_setup() -> Any:
    raise ValueError("no yardstick here")


def refused_setup() -> Any:
    raise WallsError("no wall stands")


def dying_setup() -> Any:
    os.kill(os.getpid(), signal.SIGKILL)


def endless_setup() -> Any:
    time.sleep(1000)


def add(state: Any, a: int, b: int) -> int:
    return a + b


def whoami(state: Any) -> tuple[int, int]:
    state.calls += 1
    return os.getpid(), state.calls


def environment(state: Any, name: str) -> str | None:
    return os.environ.get(name)


def sleep(state: Any, seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def echo(state: Any, value: Any) -> Any:
    return value


class Picky(Exception):
    """Does not survive pickling: its arguments are not those of its constructor."""

    def __init__(self, a: int, b: int) -> None:
        super().__init__(f"{a} and {b}")


def fail(state: Any, how: str) -> None:
    if how == "picky":
        raise Picky(1, 2)
    if how == "exit":
        sys.exit(3)
    raise KeyError(how)


def unpicklable(state: Any) -> Any:
    return threading.Lock()


def die(state: Any, log: str, times: int) -> str:
    """Die `times` times (counted in a file), then give an answer."""
    with open(log, "a") as file:
        file.write(f"{os.getpid()}\n")
    if len(Path(log).read_text().splitlines()) <= times:
        os.kill(os.getpid(), signal.SIGKILL)
    return "alive"


def hang_with_children(state: Any, log: str) -> None:
    """Start a child in the worker's group and one in a session of its own, note them, and never end."""
    children = [subprocess.Popen(["sleep", "1000"], start_new_session=own) for own in (False, True)]
    with open(log, "a") as file:
        file.write("".join(f"{child.pid}\n" for child in children))
    time.sleep(1000)


def die_holding_connection(state: Any, log: str) -> None:
    """Die while a forked child still holds every descriptor of the worker, the connection too."""
    child = os.fork()
    if child == 0:
        time.sleep(1000)
    with open(log, "a") as file:
        file.write(f"{child}\n")
    os._exit(7)


def meet(state: Any, mine: str, other: str) -> bool:
    """Leave a file and wait for the other one's."""
    Path(mine).touch()
    while not Path(other).exists():
        time.sleep(0.01)
    return True


def forking(state: Any, value: int) -> int:
    """Returns twice: here, and in a child that it leaves behind."""
    return value if os.fork() else -value
