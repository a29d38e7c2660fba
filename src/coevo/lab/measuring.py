"""Measuring a branch: fresh samples on the gate's, the holdout's and the report's tasks, by a judge that no branch can reach.

Only the driver calls it. Rows are evidence rows of schema 1 with reward, public fitness and truth apart.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from coevo.errors import ConfigError, GateBlocked, InfrastructureError
from coevo.lab.apart import answers_of, require_no_answers, require_own_tests
from coevo.lab.interventions import lean
from coevo.lab.settings import LabConfig
from coevo.runs import Run
from coevo.streams import array_stream, stream, stream_seed
from coevo.training.opening import Setup
from coevo.training.settings import Recipe

SPLITS = ("gate", "holdout", "report")

TOY_VARIANTS = 8
"""Tasks of each split that look like one state of the toy world."""
TOY_SPREAD = 0.08
"""How far the fitness of a variant may lie from its state's."""

Rows = list[dict[str, Any]]


class Measurer(Protocol):
    """Where truth comes from."""

    def tasks(self, split: str) -> tuple[str, ...]:
        """Names of the tasks of "gate", "holdout" or "report"; no two splits share one."""
        ...

    def judge(self) -> Mapping[str, str]:
        """Name -> SHA-256 of everything that decides what truth is."""
        ...

    def answers(self) -> Mapping[str, tuple[str, ...]]:
        """Task of the gate or the holdout -> fingerprints of its answers, by which they are found in training data."""
        ...

    def decoys(self) -> Mapping[str, tuple[str, ...]]:
        """The same of the report's tasks, which no branch is selected by: what of it a training run comes upon, it comes upon alone."""
        ...

    def measure(
        self, run: Path, *, split: str, tasks: Sequence[str], samples: int, seed: int, untrained: bool = False
    ) -> Rows:
        """`samples` fresh rollouts of a branch's policy (its training run's folder) on each task: evidence rows of that split. `untrained`: of the
        weights that it began with."""
        ...


PARENT = "parent_truth"
"""Column of the rows, beside schema 1: fitness on hidden tests of the program that the policy was given; None where it was given none."""


def samples_of(rows: Rows, tasks: Sequence[str]) -> dict[str, tuple[float | None, ...]]:
    """Task -> what each sample is worth, None where it could not be measured."""
    found: dict[str, list[float | None]] = {task: [] for task in tasks}
    for row in rows:
        found[row["task"]].append(worth(row))
    return {task: tuple(values) for task, values in found.items()}


def worth(row: Mapping[str, Any]) -> float | None:
    """What the gate compares: truth; where a program was given, what its truth gained: max(0, truth - the parent's).

    A search keeps its parent, so a regression costs it nothing and a copy brings nothing. Judged by truth itself, a policy that only learnt to hand
    the parent back would be "better" than one that tries.
    """
    if row["unmeasured_reason"] or row["truth"] is None:
        return None
    parent = row.get(PARENT)
    return float(row["truth"]) if parent is None else max(0.0, float(row["truth"]) - float(parent))


def gate_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row as the gate reads it, in one unit: where a program was given, truth and public fitness are both what was gained on it. That a
    program was handed back is said in `copy`, since gains no longer tell."""
    if row.get(PARENT) is None or row["parent_fitness"] is None:
        return dict(row)
    gained = None if row["fitness"] is None else max(0.0, row["fitness"] - row["parent_fitness"])
    return {**row, "truth": worth(row), "fitness": gained, "parent_fitness": None}


@contextmanager
def open_measurer(config: LabConfig, *, notify: Callable[[str], None] = lambda line: None) -> Iterator[Measurer]:
    """The measurer of a lab, by its trainer. Raises `ConfigError` where the splits cannot work."""
    if config.recipe.trainer == "toy":
        yield ToyMeasurer(config.seed, config.recipe.episode.temperature)
        return
    with ExitStack() as stack:
        yield EngineMeasurer.opened(config, stack, notify)


# Toy


@dataclass(frozen=True)
class ToyMeasurer:
    """Exact mechanics of the toy world. A task is a variant of one of its states, a little easier or harder; truth is hidden fitness, which
    none of the recipe's planted faults touches; fitness and reward are what the branch's own recipe sees."""

    seed: int
    temperature: float = 1.0
    """Of the first recipe: all arms are asked in the same way."""

    def tasks(self, split: str) -> tuple[str, ...]:
        from coevo.training.toy_world import STATES

        return tuple(f"{state.name}/{split}-{i}" for state in STATES for i in range(TOY_VARIANTS))

    def judge(self) -> Mapping[str, str]:
        from coevo.training import toy_world

        text = Path(toy_world.__file__).read_bytes()
        splits = "\n".join(task for split in SPLITS for task in self.tasks(split))
        return {"judge": hashlib.sha256(text).hexdigest(), "tasks": hashlib.sha256(splits.encode()).hexdigest()}

    def answers(self) -> Mapping[str, tuple[str, ...]]:
        return {}  # An edit of the toy world is a word; there is nothing to copy.

    def decoys(self) -> Mapping[str, tuple[str, ...]]:
        return {}

    def measure(
        self, run: Path, *, split: str, tasks: Sequence[str], samples: int, seed: int, untrained: bool = False
    ) -> Rows:
        from coevo.training.rewards import reward_of
        from coevo.training.toy import weights_of
        from coevo.training.toy_edits import Edits
        from coevo.training.toy_records import Group, evidence_of
        from coevo.training.toy_world import ACTIONS, STATES
        from coevo.training.types import Scored

        with Run.open(run, write=False) as opened:
            recipe, weights = Setup.read(opened).recipe, weights_of(opened, 0 if untrained else None)
        states = {state.name: state for state in STATES}
        asked = recipe.episode.model_copy(update={"temperature": self.temperature})
        edits, rows = Edits(recipe.model_copy(update={"episode": asked})), []
        with reward_of(recipe.reward) as reward:
            for task in tasks:
                state = states[task.partition("/")[0]]
                rng = array_stream(seed, "measure", task)
                place = self._place(task, state)
                rollouts = edits.rollouts(weights, rng, state, f"{task}#{seed}", samples, place=place)
                known = [i for i, rollout in enumerate(rollouts) if rollout.seen is not None]
                scored: list[Scored | None] = [None] * len(rollouts)
                paid = reward([r.seen for r in rollouts if r.seen is not None]) if known else []
                for i, one in zip(known, paid, strict=True):
                    scored[i] = edits.with_bonus(one, ACTIONS[rollouts[i].action])
                group = Group(state, rollouts, tuple(scored), (None,) * len(rollouts), 0)
                rows += [
                    {
                        **evidence_of(run.name, 0, group, i, split),
                        "branch": run.name,
                        "task": task,
                        PARENT: place.fitness,
                    }
                    for i in range(len(rollouts))
                ]
        return rows

    def _place(self, task: str, state: Any) -> Any:
        """The variant's own state: what the policy cannot tell from the one it knows."""
        from coevo.training.toy_world import State

        shift = stream(self.seed, "toy-task", task).uniform(-TOY_SPREAD, TOY_SPREAD)
        return State(state.index, state.symptom, state.fitness + shift)


# Engines


@dataclass(frozen=True)
class EngineMeasurer:
    """A branch's newest checkpoint, asked on tasks as the first recipe's episodes ask, judged on public and hidden tests."""

    config: LabConfig
    by_split: Mapping[str, tuple[str, ...]]
    known: Mapping[str, Any]
    """Task by name."""
    pool: Any
    notify: Callable[[str], None]
    starts: dict[str, Any] = field(default_factory=dict)
    """Made when first asked for."""
    hidden: dict[str, float] = field(default_factory=dict)
    """Of start programs that are given: fitness on hidden tests."""

    @classmethod
    def opened(cls, config: LabConfig, stack: ExitStack, notify: Callable[[str], None]) -> EngineMeasurer:
        from coevo.evaluation.judges import open_judges
        from coevo.tasks.sets import load_tasks
        from coevo.training.sources import require_apart

        splits = {name: load_tasks(getattr(config.tasks, name)) for name in ("train", *SPLITS)}
        for name in ("train", *SPLITS):
            if not splits[name]:
                raise ConfigError(f"tasks.{name} names no task; a lab needs four splits that share none")
        seen: dict[str, str] = {}
        for name, some in splits.items():
            for task in some:
                if task.name in seen:
                    raise GateBlocked(
                        f"task {task.name!r} is in tasks.{seen[task.name]} and in tasks.{name}; splits share none"
                    )
                seen[task.name] = name
        held = [task for name in SPLITS for task in splits[name]]
        require_apart({task.name: task for task in splits["train"]}, held)
        require_own_tests(splits)
        require_no_answers(splits["train"], [*splits["gate"], *splits["holdout"]])
        pool = stack.enter_context(open_judges(config.recipe.pool, held, sandbox=config.recipe.sandbox))
        by_split = {name: tuple(task.name for task in splits[name]) for name in SPLITS}
        return cls(config, by_split, {task.name: task for task in held}, pool, notify)

    def tasks(self, split: str) -> tuple[str, ...]:
        return self.by_split[split]

    def judge(self) -> Mapping[str, str]:
        """Over the files as they are now, which is what workers judge by, and not as they were when the lab was opened."""
        from coevo.tasks.loader import load_task
        from coevo.tasks.sets import task_ref
        from coevo.training.sources import tasks_digest

        return {"judge": tasks_digest(load_task(task_ref(task), lazy=True) for task in self.known.values())}

    def answers(self) -> Mapping[str, tuple[str, ...]]:
        return answers_of(self.known[name] for split in ("gate", "holdout") for name in self.by_split[split])

    def decoys(self) -> Mapping[str, tuple[str, ...]]:
        return answers_of(self.known[name] for name in self.by_split["report"])

    def measure(
        self, run: Path, *, split: str, tasks: Sequence[str], samples: int, seed: int, untrained: bool = False
    ) -> Rows:
        from coevo.engines.opening import open_engine
        from coevo.episodes.running import run_episodes
        from coevo.episodes.types import Start
        from coevo.training import checkpoints

        with Run.open(run, write=False) as opened:
            setup = Setup.read(opened)
        orders = [Start(state, state.task, i) for state in map(self._start, tasks) for i in range(samples)]
        folder = run / checkpoints.FOLDER
        saved = checkpoints.found(run)
        with closing(open_engine(setup.weights, setup.recipe.engine, folder=folder, notify=self.notify)) as engine:
            if saved and not untrained:
                engine.load(checkpoints.pick(run).state, with_optimizer=False)
            rollouts = run_episodes(
                engine, orders, self._episode(engine), pool=self.pool, tasks=dict(self.known), seed=seed, step=0
            )
        return self._rows(run.name, setup.recipe, rollouts, split)

    def _episode(self, engine: Any) -> Any:
        """As the first recipe asks, whatever the branch's says. A stored config names every setting: only what is not the default counts as
        said, as in the harness, so that a bound of replies that nobody set fits the model here as it does in training."""
        from coevo.config import parse
        from coevo.training.preflight import with_fitting_replies

        first = parse(Recipe, lean(self.config.recipe), where="first recipe")
        return with_fitting_replies(first, engine).episode.model_copy(update={"truth": 1.0})

    def _rows(self, branch: str, recipe: Recipe, rollouts: Sequence[Any], split: str) -> Rows:
        """With the reward that the branch's own recipe pays."""
        from coevo.episodes.evidence import evidence_row
        from coevo.training import batch as batches
        from coevo.training.rewards import reward_of

        by_task: dict[str, list[Any]] = {}
        for rollout in rollouts:
            by_task.setdefault(rollout.group, []).append(rollout)
        rows: Rows = []
        with reward_of(recipe.reward) as reward:
            for name, some in by_task.items():
                group = batches.scored_group(name, some, reward, recipe)
                for rollout, total in zip(some, group.returns, strict=True):
                    known = {"run": branch, "branch": branch, "step": 0, "split": split, "kind": self.known[name].kind}
                    rows.append({**evidence_row(rollout, **known, reward=total), PARENT: self.hidden.get(name)})
        return rows

    def _start(self, name: str) -> Any:
        """Where a task begins: the statement alone where nothing else is trained on, else its start program, judged once."""
        from coevo.evolution.types import Edit
        from coevo.training.sources import program_state, statement_state

        if name not in self.starts:
            task, states = self.known[name], self.config.recipe.states
            only_statements = all(source == "statement" or not share for source, share in states.mix.items())
            if only_statements:
                self.starts[name] = statement_state(task)
            else:
                from coevo.episodes.standing import attempt_of

                attempt = attempt_of(task.start, self._judged(name, "public"))
                self.hidden[name] = self._judged(name, "hidden").fitness
                self.starts[name] = program_state(task, attempt, Edit(states.style))
        return self.starts[name]

    def _judged(self, name: str, split: str) -> Any:
        """The start program, on public or on hidden tests."""
        from coevo.evaluation.judges import measure

        seed = stream_seed(self.config.seed, "start", name, split) % 2**31
        evaluation = self.pool.submit(measure, name, self.known[name].start, split, seed).result()
        if evaluation.fitness is None:
            raise InfrastructureError(
                f"the start program of task {name!r} could not be measured: {evaluation.reason}. `coevo evaluate` tries it alone"
            )
        return evaluation
