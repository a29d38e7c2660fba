"""One task's view of a pool whose workers judge many: what a search takes as its pool."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import Any

from coevo.evaluation.judges import Judges, deadline_s
from coevo.evaluation.pool import Pool
from coevo.evaluation.types import Evaluation
from coevo.programs import Program
from coevo.tasks.types import Split, Task


class TaskPool:
    """A `Pool` over one with `Judges` as its workers' state; closing it leaves that one open."""

    def __init__(self, pool: Pool, task: Task, lock: AbstractContextManager[Any] | None = None) -> None:
        """`lock` is held while a job is handed in: a pool that works in the caller's thread must not be used by two of them."""
        self._pool, self._task, self._lock = pool, task.name, lock or nullcontext()
        self._deadline_s = deadline_s(task)
        self.workers = pool.workers

    def submit(self, fn: Callable[..., Any], *args: Any, deadline_s: float | None = None) -> Future[Any]:
        """Run `fn(judge, *args)` in a worker, where `judge` judges this task."""
        with self._lock:
            return self._pool.submit(on_task, self._task, fn, *args, deadline_s=deadline_s or self._deadline_s)

    def close(self) -> None:
        """Does nothing: the pool is someone else's."""

    def __enter__(self) -> TaskPool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class TaskJudge:
    """In a worker: the part of a `Judge` that a search's jobs use; the judge itself is made when one needs it."""

    def __init__(self, judges: Judges, task: str) -> None:
        self._judges, self._task = judges, task

    def evaluate(self, program: Program, *, split: Split, seed: int) -> Evaluation:
        return self._judges.evaluate(self._task, program, split=split, seed=seed)


def on_task(judges: Judges, task: str, fn: Callable[..., Any], *args: Any) -> Any:
    """A pool's job: `fn(judge, *args)` with the judge of the task of that name."""
    return fn(TaskJudge(judges, task), *args)


__all__ = ["TaskPool"]
