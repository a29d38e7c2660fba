"""What each phase of a study does for one arm and seed. A phase gets a `Bench` and returns the data that its event keeps."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from coevo.bench import policies, probes
from coevo.bench.holdout import Holdout
from coevo.bench.plan import Unit, arm_of, uses
from coevo.bench.searching import Fleet, Job
from coevo.bench.settings import StudyConfig, recipe_of
from coevo.bench.suites import TRAIN, VALIDATION, Suite
from coevo.bench.types import SearchRecord, Training
from coevo.config import parse
from coevo.errors import GateBlocked, ModelError
from coevo.evaluation.pool import Pool
from coevo.evolution.interrupts import FILE as STOP_FILE
from coevo.evolution.settings import SearchConfig
from coevo.models import ModelSpec
from coevo.runs import Budget, Run
from coevo.runs.jsontext import dumps
from coevo.streams import stream_seed
from coevo.tasks.sets import task_ref
from coevo.tasks.types import Task
from coevo.training.settings import Recipe, StatesConfig

SEARCHES, TRAINING = "searches", "training"
"""Folders of a study."""

_CURVES = (
    *("reward_mean", "fitness", "gain", "improving", "truth", "copy_rate", "distinct_children", "entropy", "length"),
    *("dead_groups", "unmeasured", "grad_norm", "kl", "lr", "contract_ok", "rollouts"),
)
"""Metrics of training that a study keeps, where the trainer has them."""


@dataclass
class Bench:
    """A study under way: its settings, and what its phases share."""

    config: StudyConfig
    folder: Path
    suite: Suite
    pool: Pool
    holdout: Holdout
    untrained: ModelSpec
    results: Mapping[str, Mapping[str, Any]]
    """Data of the units made so far, by key."""
    notify: Callable[[str], None] = lambda line: None
    force: bool = False
    """Open test splits again."""
    cancelled: threading.Event = field(default_factory=threading.Event)
    training: Path | None = None
    """Run folder of the training under way, to be asked to stop."""
    said: set[str] = field(default_factory=set)
    """Lines of trainers that were passed on: what holds for every run of an arm is said once."""

    def stop(self) -> None:
        """Ask what is under way to end; callable from any thread."""
        self.cancelled.set()
        if self.training is not None and self.training.is_dir():
            (self.training / STOP_FILE).touch()

    def tell_once(self, line: str) -> None:
        """Pass a trainer's line on, unless it was before."""
        if line not in self.said:
            self.said.add(line)
            self.notify(line)

    def fleet(self, *, keep: bool = False) -> Fleet:
        return Fleet(
            self.pool,
            self.folder / SEARCHES,
            parallel=self.config.parallel,
            keep=keep or self.config.keep_runs,
            cancelled=self.cancelled,
        )

    def chosen(self, arm: str, seed: int) -> ModelSpec:
        """The policy of an arm: the untrained one, or the checkpoint that validation chose."""
        if not arm_of(self.config, arm).trained:
            return self.untrained
        picked = self.results.get(Unit("select", arm, seed, VALIDATION).key, {}).get("checkpoint")
        checkpoint = picked or self.results[Unit("train", arm, seed).key]["checkpoints"][-1]
        return policies.trained_spec(self.untrained, self.folder / checkpoint)


def pilot(bench: Bench, unit: Unit) -> dict[str, Any]:
    """The untrained policy searching the validation split: noise, and states for the probes."""
    keep = bench.config.probe.states > 0 and unit.seed == 0
    return _searched(bench, unit, bench.untrained, "pilot", bench.suite.splits[VALIDATION], keep=keep)


def states(bench: Bench, unit: Unit) -> dict[str, Any]:
    """The untrained policy searching the training tasks: start states for the arms that train on recorded searches."""
    tasks = bench.suite.splits[TRAIN][: bench.config.states.tasks]
    budget = bench.config.budget.model_copy(update={"evaluations": bench.config.states.evaluations})
    return _searched(bench, unit, bench.untrained, "states", tasks, keep=True, budget=budget, verify=False)


def train(bench: Bench, unit: Unit) -> dict[str, Any]:
    """One training run, new or gone on with."""
    from coevo.training import session

    path = bench.folder / TRAINING / f"{unit.arm}-{unit.seed}"
    bench.training = path
    try:
        if (path / "run.db").exists():
            result = session.go_on(path, notify=bench.tell_once)
        else:
            result = session.train(recipe_for(bench, unit), path, notify=bench.tell_once)
    finally:
        bench.training = None
    if bench.cancelled.is_set() or result.stopped_by == "interrupted":
        raise KeyboardInterrupt
    if result.exit_code:
        raise ModelError(f"{unit}: {result.message} ({path})")
    return training_of(bench.folder, path, unit, result).to_dict()


def recipe_for(bench: Bench, unit: Unit) -> Recipe:
    """The recipe of one arm and seed, resolved. Arms of one seed share theirs, so they draw alike where they can."""
    config, spec = bench.config, bench.untrained
    tasks = bench.suite.splits[TRAIN]
    runs: list[str] = []
    if uses(config, unit.arm, "search"):
        records = bench.results[Unit("states", "search", unit.seed, TRAIN).key]["records"]
        runs = [str((bench.folder / SEARCHES / row["run"]).resolve()) for row in records]
    steps = config.recipe.steps
    own = config.recipe.states.search
    if own == StatesConfig().search:  # Not set: the policy's own searches are those that it will be judged by.
        own = config.search.model_copy(update={"steps": config.states.evaluations - 1, "verify": False})
    return recipe_of(
        config,
        unit.arm,
        {
            "base": spec.target or "local",
            "seed": stream_seed(config.seed, "train", unit.seed) >> 2,
            "states.tasks": [task_ref(task) for task in tasks],
            "states.runs": runs,
            "states.search": own.model_dump(mode="json"),
            "episode.max_tokens": spec.max_tokens,
            "episode.temperature": spec.temperature,
            "checkpoint_every": max(1, -(-steps // config.select)),
            "checkpoints": config.select + 1,
            "pool": config.pool,
            "sandbox": config.sandbox.model_dump(mode="json"),
        },
    )


def training_of(folder: Path, path: Path, unit: Unit, result: Any) -> Training:
    """What a study keeps of a training run."""
    from coevo.training.checkpoints import found
    from coevo.training.history import curve

    curves: dict[str, list[tuple[int, float]]] = {}
    with Run.open(path, write=False) as run:
        for row in curve(run):
            for name in _CURVES:
                if isinstance(value := row.get(name), int | float):
                    curves.setdefault(name, []).append((int(row["step"]), round(float(value), 6)))
    checkpoints = [one.path for one in found(path)] or ([result.last] if result.last else [])
    if not checkpoints:
        raise ModelError(f"{unit} left no checkpoint in {path}: {result.message}")
    return Training(
        arm=unit.arm,
        seed=unit.seed,
        run=str(path.relative_to(folder)),
        steps=result.steps,
        stopped_by=str(result.stopped_by),
        spent={name: float(value) for name, value in result.spent.items() if value},
        curves=curves,
        checkpoints=tuple(str(one.relative_to(folder)) for one in checkpoints),
        notes=tuple(result.notes),
    )


def select(bench: Bench, unit: Unit) -> dict[str, Any]:
    """Evolve@budget of every checkpoint on the validation split; the best mean of verified fitness wins, the later of equals."""
    checkpoints = bench.results[Unit("train", unit.arm, unit.seed).key]["checkpoints"]
    scores: dict[str, float] = {}
    for checkpoint in checkpoints[-bench.config.select :]:
        spec = policies.trained_spec(bench.untrained, bench.folder / checkpoint)
        name = f"{VALIDATION}-{Path(checkpoint).name}"
        data = _searched(bench, unit, spec, name, bench.suite.splits[VALIDATION])
        values = [row["hidden_best"] for row in data["records"] if row["hidden_best"] is not None]
        scores[checkpoint] = sum(values) / len(values) if values else float("-inf")
    best = max(scores, key=lambda name: (scores[name], checkpoints.index(name)))
    return {"checkpoint": best, "scores": scores}


def test(bench: Bench, unit: Unit) -> dict[str, Any]:
    """One arm on one held-out split, once."""
    spec = bench.chosen(unit.arm, unit.seed)
    digest = bench.suite.digest(unit.split)
    what = hashlib.sha256(
        dumps(
            [
                policies.fingerprint(spec),
                bench.config.search_of(unit.arm).model_dump(mode="json"),
                str(bench.config.budget),
            ],
            canonical=True,
        ).encode()
    ).hexdigest()
    name = f"{bench.suite.name}/{unit.split}"
    touches = bench.holdout.open(name, digest, arm=unit.arm, seed=unit.seed, what=what, force=bench.force)
    bench.notify(f"holdout {name}, {unit.arm}, seed {unit.seed}: {touches}")
    data = _searched(bench, unit, spec, unit.split, bench.suite.splits[unit.split])
    bench.holdout.close(name, digest, arm=unit.arm, seed=unit.seed, what=what)
    return {**data, "what": what, "touches": {"ever": touches.ever, "study": touches.study, "forced": touches.forced}}


def probe(bench: Bench, unit: Unit) -> dict[str, Any]:
    """Single replies to the pilot's states, with feedback swapped and with history taken away."""
    config = bench.config
    records = bench.results[Unit("pilot", "search", 0, VALIDATION).key]["records"]
    folders = [bench.folder / SEARCHES / row["run"] for row in records]
    tasks = {task.name: task for task in bench.suite.splits[VALIDATION]}
    found = probes.states_of(folders, tasks, count=config.probe.states, seed=config.seed)
    if not found:
        return {"probes": []}
    with policies.opened(bench.chosen(unit.arm, unit.seed), notify=bench.notify) as model:
        rows = probes.probe(
            model,
            found,
            bench.pool,
            samples=config.probe.samples,
            seed=stream_seed(config.seed, "probe", unit.seed),
            prompt_chars=config.search.prompt_chars,
            cancelled=bench.cancelled.is_set,
        )
    return {"probes": [{"arm": unit.arm, "seed": unit.seed, **row.to_dict()} for row in rows]}


PHASE: Mapping[str, Callable[[Bench, Unit], dict[str, Any]]] = {
    "pilot": pilot,
    "states": states,
    "train": train,
    "select": select,
    "test": test,
    "probe": probe,
}


def _searched(
    bench: Bench,
    unit: Unit,
    spec: ModelSpec,
    suite: str,
    tasks: Sequence[Task],
    *,
    keep: bool = False,
    budget: Budget | None = None,
    verify: bool = True,
) -> dict[str, Any]:
    """Searches of one policy on all tasks, as the data of an event."""
    search = _search_of(bench.config, unit.arm)
    jobs = [
        Job(
            unit.arm,
            unit.seed,
            suite,
            task,
            search.model_copy(
                # The same for every arm: they differ in what they do, not in the numbers they draw.
                update={"seed": stream_seed(bench.config.seed, "search", task.name, unit.seed) >> 2, "verify": verify}
            ),
            budget or bench.config.budget,
        )
        for task in tasks
    ]
    with policies.opened(spec, notify=bench.notify) as model:
        records = bench.fleet(keep=keep).run(jobs, model, spec=str(spec))
    if unit.phase != "states":
        _require_measured(unit, records)
    return {"model": str(spec), "records": [record.to_dict() for record in records]}


def _search_of(config: StudyConfig, arm: str) -> SearchConfig:
    return (
        config.search_of(arm) if arm in config.arms else parse(SearchConfig, config.search.model_dump(), where="search")
    )


def _require_measured(unit: Unit, records: Iterable[SearchRecord]) -> None:
    """Where hidden tests could measure nothing, there is nothing to compare."""
    if all(record.hidden_best is None for record in records):
        raise GateBlocked(
            f"{unit}: not one of its searches could be verified on hidden tests; nothing was learnt from it"
        )
