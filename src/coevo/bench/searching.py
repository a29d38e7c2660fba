"""Many searches at once: one shared model, one shared pool of judges, one record per search.

Searches run in threads, since what they wait for is elsewhere: a model that answers all of them in one batch
(`coevo.models.sharing`), and judging processes. Every search is the public one, in a run folder of its own; nothing here
steers it.
"""

from __future__ import annotations

import shutil
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from coevo.bench.records import record_of
from coevo.bench.types import SearchRecord
from coevo.errors import InfrastructureError, ModelError
from coevo.evaluation.pool import InlinePool, Pool
from coevo.evaluation.pool_task import TaskPool
from coevo.evolution.interrupts import FILE as STOP_FILE
from coevo.evolution.result import Stop
from coevo.evolution.search import search
from coevo.evolution.session import KIND, Met, Setup
from coevo.evolution.settings import SearchConfig
from coevo.evolution.types import Rejection
from coevo.models.ensemble import Ensemble
from coevo.models.sharing import SharedModel
from coevo.models.types import Model
from coevo.runs import Budget, Run
from coevo.tasks.types import Task

PATIENCE_S = 900.0
"""A batch waits so long for a search that neither asks nor ends: longer than any evaluation may take."""

_LOOK_S = 0.2
"""How often the caller looks whether it was asked to stop."""


@dataclass(frozen=True)
class Job:
    """One search to make."""

    arm: str
    seed: int
    suite: str
    task: Task
    config: SearchConfig
    budget: Budget

    @property
    def folder(self) -> str:
        """Of its run, below that of all searches."""
        safe = "".join(c if c.isalnum() or c in "-_." else "_" for c in self.task.name)
        return f"{self.suite}/{self.arm}-{self.seed}/{safe}"


@dataclass(frozen=True)
class Fleet:
    """What all searches of a study share."""

    pool: Pool
    folder: Path
    """Where run folders go."""
    parallel: int = 32
    """Searches at once."""
    keep: bool = False
    """Whether run folders stay when their record is made."""
    cancelled: threading.Event = field(default_factory=threading.Event)
    """Set from anywhere: searches end as soon as they can, and `run` raises `KeyboardInterrupt`."""

    def run(
        self,
        jobs: Sequence[Job],
        model: Model,
        *,
        spec: str = "",
        notify: Callable[[SearchRecord], None] = lambda record: None,
    ) -> list[SearchRecord]:
        """Make all searches, and return their records in the order of `jobs`. `notify` is called on their threads.

        With a batched model, results are a function of the jobs, the model and `parallel` (which says what is in a batch, and so
        touches the last bits of floats). Raises the first error of any; a search that the model or the machine failed is one.
        """
        if not jobs:
            return []
        return _Sailing(self, jobs, model, spec, notify).go()


class _Sailing:
    def __init__(
        self, fleet: Fleet, jobs: Sequence[Job], model: Model, spec: str, notify: Callable[[SearchRecord], None]
    ) -> None:
        self.fleet, self.jobs, self.model, self.spec, self.notify = fleet, jobs, model, spec, notify
        self.width = min(fleet.parallel, len(jobs))
        # An endpoint takes requests one by one, and needs no batch.
        self.shared = SharedModel(model, self.width, patience_s=PATIENCE_S) if model.batch > 1 else None
        self.lock = threading.Lock()
        self.judging = threading.RLock() if isinstance(fleet.pool, InlinePool) else None
        self.waiting = deque(range(len(jobs)))
        self.under_way: set[Path] = set()
        self.records: dict[int, SearchRecord] = {}
        self.stopped = False

    def go(self) -> list[SearchRecord]:
        with ExitStack() as stack:
            if self.shared is not None:
                stack.enter_context(self.shared)
            threads = stack.enter_context(ThreadPoolExecutor(self.width, "coevo-search"))
            seats = [threads.submit(self._crew) for _ in range(self.width)]
            try:
                left: set[Future[None]] = set(seats)
                while left:
                    done, left = wait(left, timeout=_LOOK_S, return_when=FIRST_EXCEPTION)
                    for future in done:
                        future.result()
                    if self.fleet.cancelled.is_set():
                        raise KeyboardInterrupt
            except BaseException:
                self._stop()
                raise
        return [self.records[i] for i in range(len(self.jobs))]

    def _crew(self) -> None:
        """One thread: search after search, all from one seat."""
        with ExitStack() as stack:
            seat = stack.enter_context(self.shared.seat()) if self.shared is not None else None
            while (number := self._next()) is not None:
                if seat is not None:
                    seat.order = number
                self.records[number] = record = self._search(self.jobs[number], seat or self.model)
                self.notify(record)

    def _next(self) -> int | None:
        with self.lock:
            return None if self.stopped or not self.waiting else self.waiting.popleft()

    def _stop(self) -> None:
        """No new searches; those under way are asked to end."""
        with self.lock:
            self.stopped = True
            for path in self.under_way:
                with suppress(OSError):
                    (path / STOP_FILE).touch()
        if self.shared is not None:
            self.shared.cancel("the study was stopped")

    def _search(self, job: Job, model: Model) -> SearchRecord:
        path = self.fleet.folder / job.folder
        budget = job.budget
        if path.exists() and not model.billable:
            # What a batch held before the kill is not known any more; from the start, replies are the same again.
            shutil.rmtree(path)
        if (path / "run.db").exists():
            run = Run.open(path, write=True, budget=budget)
        else:
            run = Run.create(path, kind=KIND, config=self._setup(job, model), budget=budget)
        with self.lock:
            self.under_way.add(path)
        try:
            with run:
                result = search(
                    job.task,
                    run,
                    pool=TaskPool(self.fleet.pool, job.task, self.judging),
                    config=job.config,
                    models=Ensemble([model], [1.0]),
                )
                if result.stop is Stop.INTERRUPTED:
                    raise KeyboardInterrupt
                if result.stop in (Stop.MODEL_DOWN, Stop.MACHINE):
                    kind = ModelError if result.stop is Stop.MODEL_DOWN else InfrastructureError
                    raise kind(f"{job.arm}, seed {job.seed}, task {job.task.name}: {result.message} ({path})")
                record = record_of(
                    run,
                    job.task,
                    result,
                    arm=job.arm,
                    seed=job.seed,
                    suite=job.suite,
                    batch=job.config.batch if job.config.strategy != "sequential" else 1,
                    where=job.folder if self.fleet.keep else "",
                )
                _require_replies(record, run)
        finally:
            with self.lock:
                self.under_way.discard(path)
        if not self.fleet.keep:
            shutil.rmtree(path, ignore_errors=True)
        return record

    def _setup(self, job: Job, model: Model) -> dict[str, Any]:
        """As `coevo evolve` writes it, so that the run can be looked at, resumed and replayed like any other."""
        met = Met(name=model.name, context=model.context, max_tokens=model.sampling.max_tokens)
        models = (self.spec,) if self.spec else ()
        return Setup.of(job.task, models=models, search=job.config, met=(met,)).model_dump(mode="json")


def _require_replies(record: SearchRecord, run: Run) -> None:
    """Refuse a search most of whose replies never came: it says nothing of its arm, and would count as one that found nothing."""
    lost = [step for step in record.steps if step.rejection == Rejection.MODEL_FAILED.value]
    if 2 * len(lost) <= len(record.steps):
        return
    why = next(
        (e.payload.get("detail", "") for e in run.events(kinds=("candidate",)) if e.payload.get("rejection")), ""
    )
    raise ModelError(
        f"{record.arm}, seed {record.seed}, task {record.task}: {len(lost)} of {len(record.steps)} requests got no reply: {why} ({run.path})"
    )
