"""Reward functions of the user's own, `PATH.py:FUNCTION`: trusted code that must not be able to end or hold up a run.

They run in worker processes of their own. A call that passes its deadline is interrupted there by an alarm; one that cannot be
interrupted (a loop in C, a bare `except:`) is killed with its worker, which is replaced.
"""

from __future__ import annotations

import functools
import hashlib
import math
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from numbers import Real
from pathlib import Path
from types import FrameType
from typing import Any

from coevo.errors import CoevoError, ConfigError, InfrastructureError
from coevo.evaluation.pool import LocalPool
from coevo.evaluation.trusted import judge_function, load_judge_file
from coevo.training.types import Sample

WORKERS = 4
"""At most; fewer on a machine with fewer CPUs."""

_GRACE_S = 2.0
"""After the alarm, before the worker is killed."""
_LOAD_S = 60.0

Functions = Mapping[str, Any]


def is_own(name: str) -> bool:
    """Whether a reward's name means a function in a file."""
    path, _, function = name.rpartition(":")
    return path.endswith(".py") and function.isidentifier()


def own_digests(names: Sequence[str]) -> dict[str, str]:
    """SHA-256 of each file that `names` mention, for the record of what a run was trained with. Raises `ConfigError`."""
    files = sorted({name.rpartition(":")[0] for name in names if is_own(name)})
    try:
        return {file: hashlib.sha256(Path(file).read_bytes()).hexdigest() for file in files}
    except OSError as e:
        raise ConfigError(f"cannot read reward file {e.filename}: {e.strerror or e}") from None


class OwnRewards:
    """The functions named, loaded in workers; they are loaded once when this is made, so that a broken file is told at once."""

    def __init__(self, names: Sequence[str], *, timeout_s: float) -> None:
        """Raises `ConfigError` for a file that cannot be read or executed, or lacks the function."""
        own_digests(names)
        absolute = tuple((name, os.path.abspath(name.rpartition(":")[0]), name.rpartition(":")[2]) for name in names)
        self._names, self._timeout_s = tuple(names), timeout_s
        workers = min(WORKERS, len(os.sched_getaffinity(0)))
        self._pool = LocalPool(workers, functools.partial(load, absolute), setup_deadline_s=_LOAD_S)
        try:
            self._pool.submit(names_of, deadline_s=_LOAD_S).result()
        except CoevoError as e:
            self._pool.close()
            raise ConfigError(f"a reward function cannot be loaded: {e}") from None

    def __call__(self, samples: Sequence[Sample]) -> dict[str, list[tuple[float | None, str]]]:
        """By name: for each sample its value, or None and the reason. Raises nothing for what the functions do."""
        deadline = self._timeout_s + _GRACE_S
        futures = {
            name: [self._pool.submit(call, name, s, self._timeout_s, deadline_s=deadline) for s in samples]
            for name in self._names
        }
        return {
            name: [_result(name, future, self._timeout_s) for future in waiting] for name, waiting in futures.items()
        }

    def close(self) -> None:
        self._pool.close()


def _result(name: str, future: Any, timeout_s: float) -> tuple[float | None, str]:
    try:
        return future.result()
    except InfrastructureError as e:
        return (
            None,
            f"{name}: its worker ended ({e}); it exits, crashes, or cannot be interrupted after {timeout_s:g} s",
        )
    except Exception as e:
        return None, f"{name}: {type(e).__name__}: {e}"


# What follows runs in the workers.


class _Late(BaseException):
    """The deadline. No `Exception`, so that a function's own `except Exception` does not swallow it."""


def load(names: Sequence[tuple[str, str, str]]) -> Functions:
    """A worker's state: the functions by name."""
    found: dict[str, Any] = {}
    modules: dict[str, Any] = {}
    for name, path, function in names:
        if path not in modules:
            modules[path] = load_judge_file(Path(path))
        found[name] = judge_function(modules[path], function)
    return found


def names_of(functions: Functions) -> list[str]:
    return list(functions)


def call(functions: Functions, name: str, sample: Sample, timeout_s: float) -> tuple[float | None, str]:
    """One value, or None and why there is none."""
    try:
        with _alarm(timeout_s):
            value = functions[name](sample)
            number = _number(value)
    except _Late:
        return None, f"{name}: timed out after {timeout_s:g} s"
    except BaseException as e:
        return None, f"{name}: raised {type(e).__name__}: {str(e)[:300]}"
    if number is None:
        return None, f"{name}: returned None" if value is None else f"{name}: returned {_kind(value)}, not a number"
    return (number, "") if math.isfinite(number) else (None, f"{name}: not finite ({number})")


def _number(value: Any) -> float | None:
    if isinstance(value, Real):
        try:
            return float(value)
        except OverflowError:
            return math.inf
    if getattr(value, "shape", None) == () and callable(getattr(value, "item", None)):  # of numpy or torch
        return _number(value.item())
    return None


def _kind(value: Any) -> str:
    return f"{type(value).__name__} {repr(value)[:60]}"


@contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    def ring(number: int, frame: FrameType | None) -> None:
        raise _Late

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


__all__ = ["OwnRewards", "is_own", "own_digests"]
