"""Reading the start states that do not change while a policy trains: statements, data sets, recorded searches."""

from __future__ import annotations

import hashlib
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from coevo.episodes.types import Source, StartState
from coevo.errors import ConfigError, TaskError, UsageError
from coevo.evolution.session import Setup
from coevo.evolution.shelf import Shelf
from coevo.evolution.types import Attempt, Context, Edit
from coevo.runs import Run
from coevo.tasks.loader import load_task, task_digest
from coevo.tasks.types import Task
from coevo.training.settings import StatesConfig
from coevo.training.states import thinned
from coevo.trajectories.folder import read_trajectories
from coevo.trajectories.lineage import context_of, evaluation_seed, outline, trace
from coevo.trajectories.rows import state_id
from coevo.trajectories.settings import LineageConfig

SPLIT = "train"
"""Of data sets. The others are for measuring."""


def fixed_states(
    config: StatesConfig, tasks: Mapping[str, Task], *, seed: int
) -> tuple[dict[Source, list[StartState]], dict[str, Task]]:
    """The states of every source in the mix but the policy's own, and all tasks that states are about.

    Tasks that only states name are looked up among the shipped ones and, for recorded searches, where the run says. Raises
    `ConfigError` that names the states whose task is not to be found, or is not the one that they were measured on.
    """
    wanted = {Source(name) for name, share in config.mix.items() if share > 0} - {Source.POLICY}
    known = dict(tasks)
    found: dict[Source, list[StartState]] = {}
    if Source.STATEMENT in wanted:
        found[Source.STATEMENT] = [statement_state(task) for task in tasks.values()]
    for source in sorted(wanted - {Source.STATEMENT}):
        measured: dict[tuple[str, str], str] = {}
        states = thinned(_recorded(config, source, known, measured), limit=config.limit, seed=seed, name=source.value)
        _require_tasks(states, known)
        _require_same_tasks(measured, {state.task for state in states}, known)
        found[source] = states
    return found, known


def statement_state(task: Task) -> StartState:
    """The task's statement alone. Its start program is not shown, and not measured."""
    return _state(task, Context(Attempt(task.start, None)), Edit.WRITE, Source.STATEMENT)


def program_state(task: Task, start: Attempt, style: Edit) -> StartState:
    """The task with its start program as the current one: where a search begins."""
    return _state(task, Context(start), style, Source.SEARCH)


def _state(task: Task, context: Context, style: Edit, source: Source) -> StartState:
    return StartState(state_id(task.name, style, context), task.name, context, style, source)


def _recorded(
    config: StatesConfig, source: Source, known: dict[str, Task], measured: dict[tuple[str, str], str]
) -> Iterator[StartState]:
    """`measured` takes in which tasks the data sets are about: (name, digest) to the folder."""
    for folder in config.trajectories:
        for row in read_trajectories(folder, split=SPLIT):
            if row.state.source is source:
                if row.task_digest:
                    measured.setdefault((row.state.task, row.task_digest), folder)
                yield row.state
    if source is Source.SEARCH:
        for path in config.runs:
            yield from states_of_run(Path(path), known)


def states_of_run(path: Path, known: dict[str, Task]) -> Iterator[StartState]:
    """What every step of a recorded search was put before; its task joins `known`."""
    config = LineageConfig()
    with Run.open(path, write=False) as run:
        setup = Setup.read(run)
        task = setup.load()
        if known.setdefault(task.name, task) is not task and task_digest(known[task.name]) != task_digest(task):
            raise ConfigError(
                f"run {path} is about another task of the name {task.name!r} than states.tasks; rename one"
            )
        shelf = Shelf(run, seed=evaluation_seed(setup))
        found = outline(run, config)
        for traced in trace(run, setup, found, config):
            context = context_of(shelf, traced)
            yield StartState(
                id=state_id(task.name, traced.style, context),
                task=task.name,
                context=context,
                style=traced.style,
                source=Source.SEARCH,
                depth=traced.depth,
                headroom=found.best - traced.fitness if found.best is not None else None,
                known=frozenset(traced.known),
            )


def _require_tasks(states: Iterable[StartState], known: dict[str, Task]) -> None:
    missing: list[str] = []
    for name in dict.fromkeys(state.task for state in states):
        if name in known:
            continue
        try:
            known[name] = load_task(name, lazy=True)
        except (TaskError, UsageError):
            missing.append(name)
    if missing:
        shown = ", ".join(missing[:5]) + (f" and {len(missing) - 5} more" if len(missing) > 5 else "")
        raise ConfigError(f"states are about tasks that cannot be found: {shown}. Add their folders to states.tasks")


def _require_same_tasks(
    measured: Mapping[tuple[str, str], str], used: Container[str], known: Mapping[str, Task]
) -> None:
    """A reward compares what a state's program was worth with what a reply is worth: both by one judge."""
    for (name, digest), folder in measured.items():
        if name in used and task_digest(known[name]) != digest:
            raise ConfigError(
                f"data set {folder} was measured on another task {name!r} than the one here ({known[name].folder}): their judges or programs "
                "differ, so its fitnesses do not compare. Give the task it was made with in states.tasks, or make the data set again"
            )


def require_apart(training: Mapping[str, Task], held_out: Sequence[Task]) -> None:
    """Raise `ConfigError` if a task is trained on and evaluated on: by name, or by content under another name."""
    digests = {task_digest(task): name for name, task in training.items()}
    for task in held_out:
        same = task.name if task.name in training else digests.get(task_digest(task))
        if same is not None:
            alias = f" (there it is called {same!r})" if same != task.name else ""
            raise ConfigError(
                f"task {task.name!r} is in evaluate.tasks and among those trained on{alias}; what is measured must not train. "
                "Take it out of one of them"
            )


def tasks_digest(tasks: Iterable[Task]) -> str:
    """SHA-256 over the configs, judges and programs of tasks: a run does not go on under others."""
    total = hashlib.sha256()
    for name, digest in sorted((task.name, task_digest(task)) for task in tasks):
        total.update(f"{name}\x1f{digest}\n".encode())
    return total.hexdigest()
