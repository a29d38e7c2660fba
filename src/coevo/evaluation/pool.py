"""Pools of workers that judge programs: in this process, in processes of this machine, or on a Ray cluster.

All have one face. Each worker makes its own `state = setup()` once (a `Judge` with its sandbox, say); `submit(fn, *args)`
runs `fn(state, *args)` there. A state that is a context manager is entered, and left when the pool closes; one with a
`close` method is closed.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import ExitStack
from types import TracebackType
from typing import Any, Protocol, Self

from coevo.errors import ConfigError, UsageError
from coevo.evaluation.pool_local import LocalPool, RemoteTraceback
from coevo.evaluation.pool_worker import enter

_SPEC = re.compile(r"(?P<kind>inline|local|ray)(:(?P<workers>\d+))?(@(?P<address>\S+))?")


class Pool(Protocol):
    """What every pool can do."""

    workers: int

    def submit(self, fn: Callable[..., Any], *args: Any, deadline_s: float | None = None) -> Future[Any]:
        """Run `fn(state, *args)`; `deadline_s` bounds its wall time (default: the pool's)."""
        ...

    def close(self) -> None:
        """End all workers; bounded in time."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class InlinePool:
    """Runs each job at once, in the caller's thread, one at a time. Deadlines cannot be enforced here."""

    workers = 1

    def __init__(self, setup: Callable[[], Any], *, deadline_s: float | None = None) -> None:
        """`setup` runs here, and what it raises is raised. `deadline_s` is accepted for the common face only."""
        self._stack = ExitStack()
        self._closed = False
        self._state = enter(setup, self._stack)

    def submit(self, fn: Callable[..., Any], *args: Any, deadline_s: float | None = None) -> Future[Any]:
        """A future that is done already."""
        if self._closed:
            raise UsageError("this pool is closed; open another one")
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()
        try:
            future.set_result(fn(self._state, *args))
        except Exception as e:
            future.set_exception(e)
        return future

    def close(self) -> None:
        self._closed = True
        self._stack.close()

    def __enter__(self) -> InlinePool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def open_pool(spec: str, setup: Callable[[], Any], *, deadline_s: float | None = None) -> Pool:
    """A pool by its spec: `inline`, `local:4`, `local` (one worker per CPU), `ray:8`, `ray`, `ray:8@ADDRESS`."""
    match = _SPEC.fullmatch(spec)
    if match is None:
        raise ConfigError(f"unknown pool {spec!r}; write inline, local:4 or ray:8@ADDRESS")
    kind, address = match["kind"], match["address"]
    workers = int(match["workers"]) if match["workers"] else None
    if workers == 0 or (kind == "inline" and workers) or (kind != "ray" and address):
        raise ConfigError(f"pool {spec!r} makes no sense; write inline, local:4 or ray:8@ADDRESS")
    if kind == "inline":
        return InlinePool(setup, deadline_s=deadline_s)
    if kind == "local":
        return LocalPool(workers or len(os.sched_getaffinity(0)), setup, deadline_s=deadline_s)
    from coevo.evaluation.pool_ray import RayPool

    return RayPool(workers, setup, address=address, deadline_s=deadline_s)


__all__ = ["InlinePool", "LocalPool", "Pool", "RemoteTraceback", "open_pool"]
