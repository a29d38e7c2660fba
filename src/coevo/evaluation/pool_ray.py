"""The pool on a Ray cluster: one actor per worker, each with its own state. Needs the `ray` extra."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from types import TracebackType
from typing import Any

from coevo.errors import CoevoError, ConfigError, InfrastructureError
from coevo.evaluation.pool_worker import enter

_ATTEMPTS = 2


class RayPool:
    """The face of `LocalPool`, over actors of a cluster (or of a local Ray that is started for it).

    One driver thread per actor waits for its replies; work, state and failures stay with the actors. The sandbox needs
    its walls on every node: a worker whose setup fails fails its jobs.
    """

    def __init__(
        self,
        workers: int | None,
        setup: Callable[[], Any],
        *,
        address: str | None = None,
        deadline_s: float | None = None,
    ) -> None:
        """`workers` None takes one per CPU of the cluster. `address` None joins a running local Ray or starts one."""
        try:
            import ray
        except ImportError:
            raise ConfigError("pool 'ray' needs the ray extra: pip install 'coevo[ray]'") from None
        self._ray = ray
        self._owns = not ray.is_initialized()
        if self._owns:
            try:
                ray.init(address=address, log_to_driver=False, include_dashboard=False if address is None else None)
            except Exception as e:
                raise InfrastructureError(f"cannot reach Ray at {address or 'this machine'}: {e}") from e
        cpus = int(ray.cluster_resources().get("CPU", 0))
        self.workers = workers or max(1, cpus)
        if self.workers > cpus:
            self._leave()
            raise ConfigError(f"pool ray:{self.workers} needs {self.workers} CPUs, one per worker; this Ray has {cpus}")
        self._setup, self._deadline_s = setup, deadline_s
        self._actor = ray.remote(num_cpus=1)(_Actor)
        self._closing = threading.Event()
        self._crew: set[Any] = set()
        self._idle: queue.SimpleQueue[Any] = queue.SimpleQueue()
        for _ in range(self.workers):
            self._idle.put(self._hire())
        self._threads = ThreadPoolExecutor(self.workers, thread_name_prefix="coevo-ray")

    def submit(self, fn: Callable[..., Any], *args: Any, deadline_s: float | None = None) -> Future[Any]:
        """Run `fn(state, *args)` in an actor."""
        return self._threads.submit(self._run, fn, args, self._deadline_s if deadline_s is None else deadline_s)

    def _run(self, fn: Callable[..., Any], args: tuple[Any, ...], deadline_s: float | None) -> Any:
        how = ""
        for _ in range(_ATTEMPTS):
            actor = self._idle.get()
            try:
                return self._ray.get(actor.run.remote(fn, args), timeout=deadline_s)
            except self._ray.exceptions.RayTaskError as e:
                raise (e.cause if isinstance(e.cause, Exception) else e) from e
            except self._ray.exceptions.GetTimeoutError:
                how = f"passed its deadline of {deadline_s:g} s and was killed"
                actor = self._replaced(actor)
            except self._ray.exceptions.RayActorError as e:
                how = f"died ({e})"
                actor = self._replaced(actor)
            finally:
                self._idle.put(actor)
        raise InfrastructureError(f"a Ray worker {how}, {_ATTEMPTS} times with the same job")

    def _hire(self) -> Any:
        actor = self._actor.remote(self._setup)
        self._crew.add(actor)
        return actor

    def _replaced(self, actor: Any) -> Any:
        if self._closing.is_set():
            raise InfrastructureError("the pool was closed while this job was running")
        self._crew.discard(actor)
        self._ray.kill(actor, no_restart=True)
        return self._hire()

    def close(self) -> None:
        """Kill all actors; jobs that wait are cancelled, jobs that run get an `InfrastructureError`."""
        if self._closing.is_set():
            return
        self._closing.set()
        self._threads.shutdown(wait=False, cancel_futures=True)
        for actor in list(self._crew):
            self._ray.kill(actor, no_restart=True)
        self._threads.shutdown(wait=True)
        self._leave()

    def _leave(self) -> None:
        if self._owns:
            self._ray.shutdown()

    def __enter__(self) -> RayPool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Actor:
    """One worker on the cluster. A setup that fails is remembered, and is what every job gets."""

    def __init__(self, setup: Callable[[], Any]) -> None:
        self._stack = ExitStack()
        self._error: Exception | None = None
        self._state: Any = None
        try:
            self._state = enter(setup, self._stack)
        except CoevoError as e:
            self._error = e
        except Exception as e:
            self._error = InfrastructureError(f"a worker could not be set up: {type(e).__name__}: {e}")

    def run(self, fn: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        if self._error is not None:
            raise self._error
        return fn(self._state, *args)
