"""One search from its settings to its files: what the Python API and the command line share.

A `Setup` is all that determines a search but its budget. It is stored as the run's config, so a folder is enough
to go on (`resume`) or to go through it again without a model (`replay`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import Field

from coevo.config import Config, parse
from coevo.errors import ConfigError, StoreError
from coevo.evaluation.judge import Judge
from coevo.evaluation.judges import deadline_s
from coevo.evaluation.pool import Pool, open_pool
from coevo.evolution.compare import Comparison, compare
from coevo.evolution.prompt import TaskView, build_messages
from coevo.evolution.result import Observer, SearchResult
from coevo.evolution.search import search
from coevo.evolution.settings import SearchConfig, StrategyName
from coevo.evolution.types import Attempt, Context, Edit
from coevo.models import open_models, parse_spec
from coevo.models.budgeting import Plan, plan, worst_prompt_tokens
from coevo.models.ensemble import Ensemble
from coevo.models.replay import ReplayModel
from coevo.runs import Budget, Run
from coevo.sandbox.types import SandboxConfig
from coevo.tasks import load_task, task_digest
from coevo.tasks.sets import task_ref
from coevo.tasks.types import Task

KIND = "evolve"
"""Kind of the runs that searches write."""

STEPS = ("candidate",)
"""Kinds of events whose digest a replay must reach."""


class TaskRef(Config):
    """Which task a run is about, and the digest its judge had."""

    ref: str
    """What `load_task` takes."""
    digest: str
    """Of the task's config, judge and programs: a run does not go on under another judge."""


class Met(Config):
    """What a replay has to know of a model: its name in the run, and what shaped its prompts."""

    name: str
    context: int | None = None
    max_tokens: int


class Setup(Config):
    """Everything that determines a search but its budget."""

    task: TaskRef
    models: tuple[str, ...] = ()
    """Model specs (docs/models.md); never holds a key."""
    search: SearchConfig = SearchConfig()
    sandbox: SandboxConfig = SandboxConfig()
    pool: str = Field(default="local")
    """Where programs are judged: inline, local:N, ray:N@ADDRESS. Does not change results."""
    met: tuple[Met, ...] = ()
    """What the models turned out to be; filled in when the run begins."""
    replay_of: str = ""
    """Folder of the run whose recorded replies answer in place of the models."""

    @classmethod
    def of(cls, task: Task, **settings: object) -> Setup:
        """For a loaded task: a shipped one is kept by its name, any other by its folder."""
        return cls.model_validate({"task": {"ref": task_ref(task), "digest": task_digest(task)}, **settings})

    @classmethod
    def read(cls, run: Run) -> Setup:
        """Of a run that a search made."""
        if run.kind != KIND:
            raise StoreError(f"run {run.path} is of kind {run.kind!r}, not a search; nothing to go on with")
        return parse(cls, run.config, where=f"config of run {run.path}")

    def load(self) -> Task:
        """The task, if it is still the one the run was made with."""
        task = load_task(self.task.ref)
        if task_digest(task) != self.task.digest:
            raise ConfigError(
                f"task {self.task.ref!r} has changed since this run was made (its config, judge or programs), so old and "
                "new results would not compare. Restore the task, or begin a new run"
            )
        return task


def judges(task: Task, spec: str, sandbox: SandboxConfig) -> Pool:
    """A pool of judges of one task."""
    return open_pool(spec, partial(Judge, task, sandbox=sandbox), deadline_s=deadline_s(task))


def preflight(task: Task, models: Ensemble, config: SearchConfig, budget: Budget) -> list[tuple[str, Plan]]:
    """Per model: the worst-case proposal, and how many the budget buys. Raises `ConfigError` if one cannot fit."""
    view = TaskView.of(task.config)
    context = Context(Attempt(task.start, 0.0))
    sample = build_messages(view, context, style=Edit.REWRITE, max_chars=config.prompt_chars)
    amounts = budget.model_dump()
    plans = []
    for name, model in zip(models.names, models.models, strict=True):
        prompt = worst_prompt_tokens(model, sample, worst_chars=config.prompt_chars)
        if model.context is not None:
            prompt = min(prompt, max(model.context - model.sampling.max_tokens, worst_prompt_tokens(model, sample)))
        plans.append((name, plan(model, prompt, amounts)))
    return plans


@dataclass(frozen=True)
class Session:
    """A run, opened for writing with all it needs; `go` searches until something stops it."""

    run: Run
    setup: Setup
    task: Task
    models: Ensemble | None

    def go(self, observer: Observer | None = None) -> SearchResult:
        with judges(self.task, self.setup.pool, self.setup.sandbox) as pool:
            return search(
                self.task, self.run, pool=pool, config=self.setup.search, models=self.models, observer=observer
            )


@contextmanager
def begin(setup: Setup, budget: Budget, out: Path, *, task: Task | None = None) -> Iterator[Session]:
    """A new run at `out`. Nothing is written when the task, the models or the budget cannot work."""
    task = task or setup.load()
    with _models(setup) as models:
        if not setup.replay_of:
            _check_bounds(setup.search, models, budget)
        if models is not None and not setup.replay_of:
            preflight(task, models, setup.search, budget)
            setup = setup.model_copy(update={"met": _met(models)})
        with Run.create(out, kind=KIND, config=setup.model_dump(mode="json"), budget=budget) as run:
            yield Session(run, setup, task, models)


@contextmanager
def resume(path: Path, *, budget: Budget | None = None, pool: str | None = None) -> Iterator[Session]:
    """An existing run, to go on; with `budget`, under new bounds (what was spent stays spent)."""
    with Run.open(path, write=False) as run:
        setup = Setup.read(run)
    if pool is not None:
        setup = setup.model_copy(update={"pool": pool})
    task = setup.load()
    with _models(setup) as models, Run.open(path, write=True, budget=budget) as run:
        yield Session(run, setup, task, models)


@contextmanager
def replaying(path: Path, out: Path, *, pool: str | None = None) -> Iterator[tuple[Session, str]]:
    """A new run at `out` that goes through `path` again with its recorded replies; and the digest of the steps of `path`.

    It makes as many steps under the same bounds, but those on money and wall time, which nothing can reach here.
    """
    with Run.open(path, write=False) as run:
        setup, digest = Setup.read(run), run.digest(kinds=STEPS)
        steps = sum(1 for _ in run.events(kinds=("candidate",))) - 1
        budget = run.ledger.budget.model_copy(update={"usd": None, "tokens": None, "minutes": None})
    if steps < 0:
        raise StoreError(f"run {path} made no step yet, so there is nothing to replay; `coevo resume {path}` goes on")
    search = setup.search.model_copy(update={"steps": steps})
    changes = {"search": search, "replay_of": str(path.resolve()), **({"pool": pool} if pool else {})}
    with begin(setup.model_copy(update=changes), budget, out) as session:
        yield session, digest


def _check_bounds(search: SearchConfig, models: Ensemble | None, budget: Budget) -> None:
    """Refuse a budget whose every bound is on something that this search spends nothing of: it would not end it."""
    bounds = set(budget.model_dump(exclude_none=True))
    free: set[str] = set()
    if models is None:
        free = {"tokens", "usd"}
    elif all(model.priced and not model.cost(1_000_000, 1_000_000) for model in models.models):
        free = {"usd"}
    if bounds and bounds <= free and search.steps is None:
        what = (
            "no model is asked"
            if models is None
            else "its models cost nothing (give price_in and price_out if they do)"
        )
        raise ConfigError(f"budget {budget} bounds nothing here, since {what}; add evaluations=200 or minutes=10, say")


def _met(models: Ensemble) -> tuple[Met, ...]:
    pairs = zip(models.names, models.models, strict=True)
    return tuple(Met(name=n, context=m.context, max_tokens=m.sampling.max_tokens) for n, m in pairs)


@contextmanager
def _models(setup: Setup) -> Iterator[Ensemble | None]:
    if not setup.models:
        yield None
        return
    if setup.replay_of:
        weights = [parse_spec(spec).weight for spec in setup.models]
        folder = Path(setup.replay_of)
        opened = Ensemble([ReplayModel(folder, m.name, m.max_tokens, m.context) for m in setup.met], weights)
    else:
        opened = open_models(setup.models)
    try:
        yield opened
    finally:
        opened.close()


def comparing(
    setup: Setup,
    task: Task,
    strategies: Sequence[StrategyName],
    seeds: Sequence[int],
    budget: Budget,
    out: Path,
    observer: Callable[[str, int], Observer | None] | None = None,
) -> Comparison:
    """`compare` with the pool and the models of a setup; every run it makes can be resumed by itself."""

    with _models(setup) as models, judges(task, setup.pool, setup.sandbox) as pool:
        _check_bounds(setup.search, models, budget)
        if models is not None:
            preflight(task, models, setup.search, budget)
            setup = setup.model_copy(update={"met": _met(models)})

        def config_of(search: SearchConfig) -> dict[str, Any]:
            return setup.model_copy(update={"search": search}).model_dump(mode="json")

        return compare(
            task,
            strategies=strategies,
            budget=budget,
            seeds=seeds,
            pool=pool,
            folder=out,
            config=setup.search,
            models=models,
            observer=observer,
            run_config=config_of,
        )
