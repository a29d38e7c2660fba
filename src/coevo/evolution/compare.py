"""Strategies side by side: the same task, models, budget and seeds; medians over seeds of verified results.

Each (strategy, seed) is a run of its own under one folder, so a comparison can be interrupted and continued like any
run. Where the task has a baseline.py, an optimiser without any model is one more arm: per seed it gets as much CPU
as the arm that was charged most, and is judged on the same hidden tests with the same seed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coevo.errors import ConfigError, InfrastructureError
from coevo.evaluation.judge import Judge
from coevo.evaluation.pool import Pool
from coevo.evaluation.types import Evaluation
from coevo.evolution.result import Observer, SearchResult, Stop
from coevo.evolution.search import search
from coevo.evolution.settings import SearchConfig, StrategyName
from coevo.evolution.verify import verification_seed
from coevo.evolution.worker import unmeasured
from coevo.models.ensemble import Ensemble
from coevo.runs import Budget, Run
from coevo.stats import quantiles
from coevo.tasks.types import Split, Task

BASELINE = "baseline"
"""Name of the arm without search or model."""

MIN_BASELINE_S = 1.0
"""A baseline gets at least this much CPU, since starting its imports takes some of it."""


@dataclass(frozen=True)
class Trial:
    """One arm, one seed."""

    arm: str
    seed: int
    fitness: float | None
    """Verified, on hidden tests; None when unmeasured."""
    score: float | None
    search_fitness: float | None
    """What the search itself saw of its best."""
    evaluations: int
    tokens: int
    cpu_s: float
    """Charged to the budget; for the baseline, what it used."""
    stop: str
    run: str = ""
    """Folder of the run."""


@dataclass(frozen=True)
class Row:
    """One arm over its seeds: (lower quartile, median, upper quartile); None when no trial was measured."""

    arm: str
    trials: int
    measured: int
    fitness: tuple[float, float, float] | None
    score: tuple[float, float, float] | None
    evaluations: float
    """Medians of what was spent."""
    tokens: float
    cpu_s: float


@dataclass(frozen=True)
class Comparison:
    """Rows in the order of the arms, best median fitness first on equal footing: see `rows`."""

    task: str
    budget: str
    seeds: tuple[int, ...]
    rows: tuple[Row, ...]
    trials: tuple[Trial, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "task": self.task,
            "budget": self.budget,
            "seeds": list(self.seeds),
            "rows": [vars(row) for row in self.rows],
            "trials": [vars(trial) for trial in self.trials],
        }


def compare(
    task: Task,
    *,
    strategies: Sequence[StrategyName],
    budget: Budget,
    seeds: Sequence[int],
    pool: Pool,
    folder: Path,
    config: SearchConfig | None = None,
    models: Ensemble | None = None,
    observer: Callable[[str, int], Observer | None] | None = None,
    run_config: Callable[[SearchConfig], dict[str, Any]] | None = None,
) -> Comparison:
    """Run every strategy on every seed under `folder` and tabulate what hidden tests say.

    `config` gives all settings but strategy, seed and verification. `observer(arm, seed)` may give an observer per run,
    `run_config` what each run keeps as its config (by default the task's name and the search's settings).
    Raises `ConfigError` for an unlimited budget (the arms would not be at equal cost) or repeated strategies or seeds,
    and what `search` raises; a run that ends because its model is down raises `InfrastructureError`.
    """
    if not budget.limits():
        raise ConfigError(
            "a comparison needs a budget, such as evaluations=200; without one the arms do not stop alike"
        )
    if budget.limits().keys() <= {"minutes"}:
        raise ConfigError(f"{budget}: minutes do not bound work equally; add evaluations, tokens or cpu_minutes")
    if not strategies or not seeds or len(set(strategies)) < len(strategies) or len(set(seeds)) < len(seeds):
        raise ConfigError(
            f"a comparison needs different strategies and seeds, not {list(strategies)} and {list(seeds)}"
        )
    base = config or SearchConfig()
    trials: list[Trial] = []
    for seed in seeds:
        arms: list[Trial] = []
        for name in strategies:
            settings = SearchConfig.model_validate(
                base.model_dump() | {"strategy": name, "seed": seed, "verify": True, "target": None}
            )
            watch = observer(name, seed) if observer else None
            path = folder / f"{name}-{seed}"
            kept = (
                run_config(settings) if run_config else {"task": task.name, "search": settings.model_dump(mode="json")}
            )
            arms.append(_trial(name, seed, path, _searched(task, path, settings, kept, budget, pool, models, watch)))
        trials += arms
        if task.baseline is not None:
            trials.append(_baseline(task, pool, seed, max(trial.cpu_s for trial in arms)))
    names = [*strategies, BASELINE] if task.baseline is not None else list(strategies)
    rows = tuple(_row(name, [trial for trial in trials if trial.arm == name]) for name in names)
    return Comparison(task.name, str(budget), tuple(seeds), rows, tuple(trials))


def _searched(
    task: Task,
    path: Path,
    config: SearchConfig,
    kept: dict[str, Any],
    budget: Budget,
    pool: Pool,
    models: Ensemble | None,
    observer: Observer | None,
) -> SearchResult:
    if (path / "run.db").exists():
        run = Run.open(path, write=True, budget=budget)
    else:
        run = Run.create(path, kind="evolve", config=kept, budget=budget)
    with run:
        result = search(task, run, pool=pool, config=config, models=models, observer=observer)
    if result.stop in (Stop.MODEL_DOWN, Stop.MACHINE):
        raise InfrastructureError(f"{path}: {result.message}. The comparison can be continued in the same folder")
    if result.stop is Stop.INTERRUPTED:
        raise KeyboardInterrupt
    return result


def _trial(arm: str, seed: int, path: Path, result: SearchResult) -> Trial:
    hidden = result.verified.best_hidden if result.verified else None
    return Trial(
        arm,
        seed,
        hidden.fitness if hidden else None,
        hidden.score if hidden else None,
        result.best.fitness if result.best else None,
        int(result.spent["evaluations"]),
        int(result.spent["tokens"]),
        60 * result.spent["cpu_minutes"],
        result.stop.value,
        str(path),
    )


def run_baseline(judge: Judge, seconds: float, split: Split, seed: int) -> Evaluation:
    """In a worker: the task's own optimiser, with `seconds` of CPU."""
    return judge.baseline(seconds, split=split, seed=seed)


def _baseline(task: Task, pool: Pool, seed: int, seconds: float) -> Trial:
    assert task.baseline is not None
    seconds = max(MIN_BASELINE_S, seconds)
    judge_seed = verification_seed(seed)
    try:
        found: Evaluation = pool.submit(
            run_baseline, seconds, "hidden", judge_seed, deadline_s=4 * seconds + 120
        ).result()
    except InfrastructureError as e:
        found = unmeasured(task, task.baseline, "hidden", judge_seed, str(e))
    return Trial(BASELINE, seed, found.fitness, found.score, None, 1, 0, found.cpu_s, found.reason or "done")


def _row(arm: str, trials: Sequence[Trial]) -> Row:
    def spread(values: list[float]) -> tuple[float, float, float] | None:
        if not values:
            return None
        low, middle, high = quantiles(values, (0.25, 0.5, 0.75))
        return low, middle, high

    def middle(values: list[float]) -> float:
        return quantiles(values, (0.5,))[0]

    return Row(
        arm,
        len(trials),
        sum(trial.fitness is not None for trial in trials),
        spread([trial.fitness for trial in trials if trial.fitness is not None]),
        spread([trial.score for trial in trials if trial.score is not None]),
        middle([float(trial.evaluations) for trial in trials]),
        middle([float(trial.tokens) for trial in trials]),
        middle([trial.cpu_s for trial in trials]),
    )
