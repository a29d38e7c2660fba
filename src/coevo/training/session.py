"""A training run: begin, resume, branch, and `train`, which does all of it. What the Python API and the command line share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coevo.config import parse, with_sets
from coevo.errors import ConfigError, UsageError
from coevo.runs import Budget, Run
from coevo.runs.types import State
from coevo.tasks import list_tasks
from coevo.training import checkpoints
from coevo.training.branch import changes
from coevo.training.grpo import train_grpo
from coevo.training.history import Past, curve, past_of, summary
from coevo.training.opening import ENGINE_TRAINERS, KIND, Opened, Parent, Setup, opened
from coevo.training.own import is_own
from coevo.training.result import Observer, StoppedBy, TrainResult
from coevo.training.settings import Recipe


@dataclass(frozen=True)
class Session(Opened):
    """An opened run; `go` trains until something stops it."""

    def go(self, observer: Observer | None = None) -> TrainResult:
        """Train; mark the run finished or stopped; say how it went."""
        self.parts.observer = observer
        try:
            stopped_by, message = self._trained()
        finally:
            self.parts.mirrors.close()
        state = State.FINISHED if stopped_by.reached else State.STOPPED
        self.run.mark(state, by=message)
        return result_of(self.run, stopped_by, message, notes=(*self.parts.notes, *self.parts.mirrors.notes))

    def _trained(self) -> tuple[StoppedBy, str]:
        if self.parts.recipe.trainer == "grpo":
            return train_grpo(self.parts)
        from coevo.training.trl_trainer import train_trl

        return train_trl(self.parts)


def result_of(run: Run, stopped_by: StoppedBy, message: str, *, notes: Sequence[str] = ()) -> TrainResult:
    """What a run has come to, from its events and checkpoints."""
    past, saved = past_of(run), checkpoints.found(run.path)
    figures = summary(run)
    if figures["skipped"]:
        why = next(row["skipped"] for row in reversed(list(curve(run))) if row["skipped"])
        notes = [
            *notes,
            f"{figures['skipped']} of {figures['steps']} steps changed no weights; the last of them: {why}",
        ]
    best = next((one.path for one in saved if past.best is not None and one.step == past.best[0]), None)
    return TrainResult(
        steps=past.made,
        stopped_by=stopped_by,
        message=message,
        last=saved[-1].path if saved else None,
        best=best,
        metrics=figures,
        spent=run.ledger.spent(),
        notes=tuple(notes),
    )


@contextmanager
def begin(
    recipe: Recipe,
    out: str | Path,
    *,
    budget: Budget | None = None,
    weights: str | Path | None = None,
    notify: Callable[[str], None] = lambda text: None,
) -> Iterator[Session]:
    """A new run of trainer `grpo` at `out`. Nothing is written when recipe, tasks, states, weights or reward cannot work.

    `weights`: the folder that `recipe.base` stands for, where the caller knows better (`mini`).
    """
    setup = _setup(recipe, weights)
    with opened(setup, Path(out), budget=budget, notify=notify) as found:
        yield Session(**vars(found))


@contextmanager
def resume(
    path: str | Path,
    *,
    budget: Budget | None = None,
    pool: str | None = None,
    notify: Callable[[str], None] = lambda text: None,
) -> Iterator[Session]:
    """An existing run of trainer `grpo`, to go on; with `budget`, under new bounds (what was spent stays spent)."""
    path = Path(path)
    with Run.open(path, write=False) as run:
        setup = Setup.read(run)
    with opened(setup, path, budget=budget, notify=notify, existing=True, pool=pool) as found:
        yield Session(**vars(found))


@contextmanager
def branch(
    run: str | Path,
    out: str | Path,
    *,
    checkpoint: str = "",
    sets: Sequence[str] = (),
    recipe: Recipe | None = None,
    budget: Budget | None = None,
    notify: Callable[[str], None] = lambda text: None,
) -> Iterator[Session]:
    """A new run that goes on from a checkpoint of another, weights and optimizer included, under a changed recipe.

    `sets` (`lr=1e-4`) change the parent's recipe; or `recipe` takes its place. Steps are counted on, so a branch of a run that made all
    of its steps needs more of them. `Session.changed` lists what differs; the first step proves that it took effect.
    """
    with Run.open(run, write=False) as old:
        setup, past, found = Setup.read(old), past_of(old), checkpoints.pick(old.path, checkpoint)
        memory = _memory_at(old, past, found.step)
    if setup.recipe.trainer != "grpo":
        raise ConfigError(
            f"run {run} was made by trainer {setup.recipe.trainer!r}; only runs of 'grpo' can be branched"
        )
    if recipe is None:
        data = with_sets(setup.recipe.model_dump(mode="json"), sets)
        recipe = parse(Recipe, data, where="branch settings")
    recipe = with_absolute_paths(recipe)
    changed = changes(setup.recipe, recipe)
    if recipe.base != setup.recipe.base or recipe.engine.lora != setup.recipe.engine.lora:
        raise ConfigError(
            "a branch keeps base and engine.lora of its parent, since it goes on with its weights; begin a new run instead"
        )
    if recipe.steps <= found.step:
        raise ConfigError(
            f"the branch would begin after step {found.step} of steps = {recipe.steps}; set more: --set steps={found.step + 100}"
        )
    parent = Parent(run=str(Path(run).resolve()), step=found.step, state=absolute(found.state))
    setup = Setup(recipe=recipe, weights=setup.weights, parent=parent)
    payload = {**memory, "parent": f"{Path(run).name}@{found.path.name}", "changed": [list(one) for one in changed]}
    with opened(setup, Path(out), budget=budget, notify=notify, branched=payload, changed=changed) as made:
        yield Session(**vars(made))


def train(
    recipe: Recipe,
    out: str | Path,
    *,
    budget: Budget | None = None,
    weights: str | Path | None = None,
    observer: Observer | None = None,
    notify: Callable[[str], None] = lambda text: None,
) -> TrainResult:
    """Train by the recipe's trainer in a new run at `out`, until something ends it. See `begin` for the arguments."""
    if recipe.trainer in ENGINE_TRAINERS:
        with begin(recipe, out, budget=budget, weights=weights, notify=notify) as session:
            return session.go(observer)
    setup = _setup(recipe, weights)
    with Run.create(Path(out), kind=KIND, config=setup.model_dump(mode="json"), budget=budget) as run:
        return _by_other(setup, run, observer)


def go_on(
    path: str | Path,
    *,
    budget: Budget | None = None,
    pool: str | None = None,
    observer: Observer | None = None,
    notify: Callable[[str], None] = lambda text: None,
) -> TrainResult:
    """Go on with a training run of any trainer where it stopped."""
    with Run.open(path, write=False) as run:
        setup = Setup.read(run)
    if setup.recipe.trainer in ENGINE_TRAINERS:
        with resume(path, budget=budget, pool=pool, notify=notify) as session:
            return session.go(observer)
    with Run.open(path, write=True, budget=budget) as run:
        return _by_other(setup, run, observer)


def _by_other(setup: Setup, run: Run, observer: Observer | None) -> TrainResult:
    """Trainers that bring their own loop: all know how to go on in a run that they began."""
    if setup.recipe.trainer == "toy":
        from coevo.training.toy import train_toy

        return train_toy(setup.recipe, run, observer=observer)
    from coevo.training.command import train_command

    return train_command(setup.recipe, run, observer=observer, weights=setup.weights)


def _setup(recipe: Recipe, weights: str | Path | None) -> Setup:
    """`weights` stands for the base where the caller knows what it is; trainer `toy` has no weights."""
    if weights is not None:
        return Setup(recipe=with_absolute_paths(recipe), weights=absolute(str(weights)))
    base = "" if recipe.trainer == "toy" else resolved(recipe.base)
    return Setup(recipe=with_absolute_paths(recipe), weights=base)


def resolved(base: str) -> str:
    """What an engine opens for a recipe's base: RUN@CHECKPOINT becomes that checkpoint's folder."""
    path, at, which = base.rpartition("@")
    if at and (Path(path) / "run.db").is_file():
        return absolute(checkpoints.pick(Path(path), which).state)
    if base == "mini" or base.startswith("mini:"):
        raise UsageError(
            f"base {base!r} is made by `coevo mini pretrain`: give the folder it leaves, or train by `coevo train`, which knows it"
        )
    return absolute(base)


def with_absolute_paths(recipe: Recipe) -> Recipe:
    """The recipe with its folders named so that it means the same from anywhere."""
    states, evaluation = recipe.states, recipe.evaluate
    states = states.model_copy(
        update={
            "tasks": tuple(map(absolute, states.tasks)),
            "trajectories": tuple(map(absolute, states.trajectories)),
            "runs": tuple(map(absolute, states.runs)),
        }
    )
    evaluation = evaluation.model_copy(update={"tasks": tuple(map(absolute, evaluation.tasks))})
    parts = {_absolute_own(name): weight for name, weight in recipe.reward.parts.items()}
    reward = recipe.reward.model_copy(update={"parts": parts})
    return recipe.model_copy(update={"states": states, "evaluate": evaluation, "reward": reward})


def _absolute_own(name: str) -> str:
    """PATH.py:FUNCTION from the root; the name of a shipped part as it is."""
    path, _, function = name.rpartition(":")
    return f"{Path(path).expanduser().resolve()}:{function}" if is_own(name) else name


def absolute(where: str) -> str:
    """A path that exists, from the root; anything else (a shipped task's name, a server's address) as it is."""
    path = Path(where).expanduser()
    return str(path.resolve()) if path.exists() and where not in list_tasks() else where


def _memory_at(run: Run, past: Past, step: int) -> dict[str, Any]:
    """What filter and entropy floor remembered after a step."""
    found = {"filter": past.filter.to_dict(), "entropy": past.entropy.to_dict()}
    names = {"batch": "filter", "update": "entropy", "branched": ""}
    for event in run.events(kinds=tuple(names)):
        if (event.step or 0) <= step:
            kept = ("filter", "entropy") if event.kind == "branched" else (names[event.kind],)
            found |= {name: event.payload[name] for name in kept}
    return found
