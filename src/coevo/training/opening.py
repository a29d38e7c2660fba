"""From a setup to an opened run: everything that can be wrong is found before anything is written.

A `Setup` is all that determines a run but its budget. It is stored as the run's config, so a folder is enough to go on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import Field

from coevo.config import Config, parse
from coevo.engines.opening import open_engine
from coevo.engines.types import Engine
from coevo.episodes.types import StartState
from coevo.errors import ConfigError, StoreError
from coevo.evaluation.judges import open_judges
from coevo.evaluation.pool import Pool
from coevo.runs import Budget, Run, place
from coevo.tasks.sets import load_tasks
from coevo.tasks.types import Task
from coevo.training import checkpoints
from coevo.training.branch import Change
from coevo.training.checkpoints import Checkpoints
from coevo.training.history import past_of
from coevo.training.own import own_digests
from coevo.training.parts import Parts
from coevo.training.preflight import Plan, preflight, with_fitting_replies
from coevo.training.purse import Purse
from coevo.training.settings import Recipe
from coevo.training.sinks import Mirrors
from coevo.training.sources import fixed_states, require_apart, tasks_digest
from coevo.training.starts import evaluation_starts
from coevo.training.states import States

KIND = "train"
"""Kind of the runs that trainers write."""

ENGINE_TRAINERS = ("grpo", "trl")
"""Trainers whose policy is an engine's, and which share all but the update."""


class Parent(Config):
    """Where a branch comes from."""

    run: str
    """Folder of the parent run."""
    step: int
    """Of the checkpoint."""
    state: str
    """What the engine loads."""


class Setup(Config):
    """Everything that determines a training run but its budget."""

    recipe: Recipe
    weights: str = ""
    """What `recipe.base` stands for on this machine: what the engine opens."""
    tasks: str = ""
    """SHA-256 over all tasks: a run does not go on under another judge."""
    states: str = ""
    """SHA-256 over the start states that do not change."""
    rewards: dict[str, str] = Field(default_factory=dict)
    """SHA-256 of each file with reward functions of the user's own."""
    parent: Parent | None = None

    @classmethod
    def read(cls, run: Run) -> Setup:
        """Of a run that a trainer made."""
        if run.kind != KIND:
            raise StoreError(f"run {run.path} is of kind {run.kind!r}, not a training run; nothing to go on with")
        return parse(cls, run.config, where=f"config of run {run.path}")


@dataclass(frozen=True)
class Opened:
    """A run, opened for training with all it needs."""

    run: Run
    setup: Setup
    parts: Parts
    plan: Plan
    changed: Sequence[Change] = ()
    """Of a branch: the fields in which its recipe differs from its parent's."""


@dataclass(frozen=True)
class _World:
    """What a run trains and is measured on: all that can be told before an engine is opened."""

    training: dict[str, Task]
    held_out: list[Task]
    everything: dict[str, Task]
    """Both, and the tasks of data: by name."""
    states: States
    fixed: Sequence[StartState]
    """The start states that do not change."""

    @classmethod
    def of(cls, recipe: Recipe) -> _World:
        training = {task.name: task for task in load_tasks(recipe.states.tasks)}
        held_out = load_tasks(recipe.evaluate.tasks)
        fixed, known = fixed_states(recipe.states, training, seed=recipe.seed)
        require_apart(known, held_out)
        states = States(recipe.states, seed=recipe.seed, fixed=fixed)
        if not known:
            raise ConfigError(
                "there is nothing to train on: name tasks in states.tasks, or data in states.trajectories or states.runs"
            )
        everything = {**known, **{task.name: task for task in held_out}}
        return cls(training, held_out, everything, states, [state for found in fixed.values() for state in found])

    @property
    def timed(self) -> bool:
        """Whether a reward on the tasks that train can depend on measured times."""
        apart = {task.name for task in self.held_out}
        return any(task.config.timing for name, task in self.everything.items() if name not in apart)


@contextmanager
def opened(
    setup: Setup,
    path: Path,
    *,
    budget: Budget | None,
    notify: Callable[[str], None],
    existing: bool = False,
    pool: str | None = None,
    branched: dict[str, Any] | None = None,
    changed: Sequence[Change] = (),
) -> Iterator[Opened]:
    """A run at `path`, made now or `existing`, with all it needs; what cannot work is refused before anything is written."""
    (place.require_free if existing else place.require_new)(path)
    _require_trainer(setup.recipe)
    world = _World.of(setup.recipe)
    setup = _held_against(world, setup, path, existing=existing)
    with ExitStack() as stack:
        reopen = partial(
            open_engine,
            setup.weights,
            setup.recipe.engine,
            folder=path / checkpoints.FOLDER,
            seed=setup.recipe.seed,
            notify=notify,
        )
        engine = stack.enter_context(closing(reopen()))
        if not existing:
            setup = _with_fitting_replies(setup, engine, notify)
        recipe = setup.recipe
        plan = preflight(recipe, engine, world.fixed, world.everything, base=setup.weights)
        if not existing:
            _require_honest_reward(recipe, timed=world.timed, notify=notify)
        judges = open_judges(pool or recipe.pool, world.everything.values(), sandbox=recipe.sandbox)
        opened_pool = stack.enter_context(judges)
        run = stack.enter_context(_run_at(setup, path, budget, existing, branched))
        notes: list[str] = []
        saved = Checkpoints(engine, path, recipe.checkpoints)
        restored = _restored(reopen, saved, run, setup, notes)
        stack.callback(saved.engine.close)
        parts = _parts(run, setup, world, saved, opened_pool, restored, notes)
        yield Opened(run, setup, parts, plan, changed or _changes_of(run))


def _require_trainer(recipe: Recipe) -> None:
    if recipe.trainer not in ENGINE_TRAINERS:
        raise ConfigError(f"trainer {recipe.trainer!r} has no session; use coevo.training.train")
    if recipe.trainer == "trl":
        from coevo.training.trl_trainer import require_possible

        require_possible(recipe)


def _held_against(world: _World, setup: Setup, path: Path, *, existing: bool) -> Setup:
    """The setup with the digests of its world; of a run that exists they must be those it began with."""
    found = {
        "tasks": tasks_digest(world.everything.values()),
        "states": world.states.digest,
        "rewards": own_digests(tuple(setup.recipe.reward.parts)),
    }
    if existing:
        _require_same(setup, path, **found)
    return setup.model_copy(update=found)


def _with_fitting_replies(setup: Setup, engine: Engine, notify: Callable[[str], None]) -> Setup:
    recipe = with_fitting_replies(setup.recipe, engine)
    if recipe is setup.recipe:
        return setup
    notify(
        f"episode.max_tokens: {recipe.episode.max_tokens}, half of the model's context of "
        f"{engine.capabilities.max_tokens} (--set episode.max_tokens=N for another bound)"
    )
    return setup.model_copy(update={"recipe": recipe})


def _parts(
    run: Run, setup: Setup, world: _World, saved: Checkpoints, pool: Pool, restored: int, notes: list[str]
) -> Parts:
    """Everything the run works with. The start programs of evaluation tasks are judged here, once."""
    recipe, parent = setup.recipe, setup.parent
    if recipe.trainer == "trl":
        from coevo.training.trl_policy import TrlPolicy

        saved.engine = TrlPolicy.over(saved.engine)
    parts = Parts(
        run=run,
        recipe=recipe,
        engine=saved.engine,
        pool=pool,
        tasks=world.everything,
        states=world.states,
        purse=Purse(run, saved.engine, recipe.episode),
        checkpoints=saved,
        mirrors=Mirrors(recipe.sinks, run.path, recipe.model_dump(mode="json")),
        begin=parent.step if parent else 0,
        branch=run.path.name if parent else "main",
        parent=f"{Path(parent.run).name}@{checkpoints.name_of(parent.step)}" if parent else "",
        restored=restored,
        notes=notes,
        changed={one.field: one.old for one in _changes_of(run)},
    )
    if world.held_out:
        from coevo.training.evaluating import Evaluator

        starts = evaluation_starts(parts, world.held_out)
        parts.evaluator = Evaluator(parts, starts, {task.name: task for task in world.held_out})
    if world.states.uses_policy:
        from coevo.training.onpolicy import Searches

        parts.searches = Searches(parts, list(world.training.values()))
    return parts


def _run_at(setup: Setup, path: Path, budget: Budget | None, existing: bool, branched: dict[str, Any] | None) -> Run:
    if existing:
        return Run.open(path, write=True, budget=budget)
    run = Run.create(path, kind=KIND, config=setup.model_dump(mode="json"), budget=budget)
    if branched is not None and setup.parent is not None:
        try:
            _begin_branch(run, setup.parent, branched)
        except BaseException:
            run.close()
            raise
    return run


def _begin_branch(run: Run, parent: Parent, branched: dict[str, Any]) -> None:
    """The branch's first event, and the policy's own states as the parent had them."""
    from coevo.training.onpolicy import copy_states

    with run.transaction():
        run.append("branched", branched, step=parent.step)
        with Run.open(parent.run, write=False) as old:
            copy_states(old, run, up_to=parent.step)


def _changes_of(run: Run) -> list[Change]:
    for event in run.events(kinds=("branched",)):
        return [Change(*one) for one in event.payload["changed"]]
    return []


def _restored(reopen: Callable[[], Engine], saved: Checkpoints, run: Run, setup: Setup, notes: list[str]) -> int:
    """Bring the engine of `saved` to the newest state of a run; that state's step: a checkpoint's, or what the run began with.

    The engine was just opened; where a damaged checkpoint may have left parts of itself in it, another one takes its place.
    """
    past = past_of(run)
    up_to = past.made
    if setup.recipe.trainer == "trl":
        # The optimizer's state is TRL's: without its checkpoint the updates are repeated from the weights the run began with.
        from coevo.training.trl_trainer import FOLDER, latest_checkpoint, steps_of

        newest = latest_checkpoint(run.path / FOLDER, up_to=past.made * setup.recipe.epochs, note=notes.append)
        up_to = steps_of(newest) // setup.recipe.epochs if newest else past.begin
    step = saved.restore(up_to=up_to, note=notes.append)
    if step is not None:
        return step
    if notes:
        saved.engine.close()
        saved.engine = reopen()
    if setup.parent is not None:
        saved.engine.load(setup.parent.state, with_optimizer=True)
    return past.begin


def _require_same(setup: Setup, path: Path, *, tasks: str, states: str, rewards: dict[str, str]) -> None:
    """Refuse to go on with a run under other tasks, data or rewards than it began with."""
    for what, same, detail in (
        ("tasks", tasks == setup.tasks, "a config, judge or program"),
        ("start states", states == setup.states, "another data set, or a search that went on"),
        ("reward functions", rewards == setup.rewards, "the text of a file"),
    ):
        if not same:
            raise ConfigError(
                f"the {what} of run {path} have changed since it was made ({detail}), so old and new steps would not compare. "
                "Restore them, or begin a new run"
            )


def _require_honest_reward(recipe: Recipe, *, timed: bool, notify: Callable[[str], None]) -> None:
    """Refuse a reward that pays planted cheats (`coevo reward audit`), unless the recipe allows it; tell its other traps."""
    if recipe.allow_cheats:
        notify("reward: not audited, since allow_cheats is set")
        return
    from coevo.training.audit import gate

    for warning in gate(recipe, timed=timed).warnings[:_TOLD]:
        notify(f"reward, on recorded tasks: {warning}")


_TOLD = 3
