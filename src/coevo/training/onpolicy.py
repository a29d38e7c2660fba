"""States that the policy itself reaches: it searches, with the weights as they stand, and learns on what it is put before there.

A step that helps at the start of a search is easy to learn and soon useless; what a search lacks are late steps. So the policy's own
searches are real ones (`coevo.evolution.search`, all of a refresh behind one batched model), and their states are taken from both halves.
Their run folders are temporary; what they reached is kept in the training run, so that a resumed run does not search again.
"""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coevo.engines.model import EngineModel
from coevo.episodes.types import Source, StartState
from coevo.errors import InfrastructureError, ModelError
from coevo.evaluation.pool import InlinePool
from coevo.evaluation.pool_task import TaskPool
from coevo.evolution.interrupts import FILE as STOP_FILE
from coevo.evolution.result import Stop
from coevo.evolution.search import search
from coevo.evolution.session import KIND, Setup
from coevo.evolution.shelf import Shelf
from coevo.models.ensemble import Ensemble
from coevo.models.sharing import SharedModel
from coevo.models.types import Sampling
from coevo.runs import Run
from coevo.runs.types import DIMENSIONS
from coevo.streams import stream, stream_seed
from coevo.tasks.types import Task
from coevo.training.parts import Parts
from coevo.training.states import PolicyState
from coevo.trajectories.lineage import context_of, evaluation_seed, outline, trace
from coevo.trajectories.rows import Trajectory, from_row, state_id, to_row
from coevo.trajectories.settings import LineageConfig

DEFAULT_STEPS = 24
"""Of a search whose settings bound nothing."""
_LOOK_S = 0.2


@dataclass(frozen=True)
class Searches:
    """The policy's own searches, every `refresh` steps."""

    parts: Parts
    tasks: Sequence[Task]

    def due(self, step: int) -> bool:
        """Before step 1 and every `refresh` steps on; before a branch's first; unless what they reached is there already."""
        config = self.parts.recipe.states
        regular = (step - 1) % config.refresh == 0 or step == self.parts.begin + 1
        return regular and step not in self.parts.refreshed

    def refresh(self, step: int, asked: Callable[[], bool]) -> bool:
        """Search, keep what was reached, hand it to the states. False if it was asked to stop meanwhile: nothing is kept then.

        Raises `BudgetSpent` before anything is started, `InfrastructureError` when the machine fails a search.
        """
        parts, config, begun = self.parts, self.parts.recipe.states, time.monotonic()
        chosen = stream(parts.recipe.seed, "searched", step).sample(
            range(len(self.tasks)), min(config.searches, len(self.tasks))
        )
        steps = config.search.steps if config.search.steps is not None else DEFAULT_STEPS
        amounts: dict[str, float] = {"evaluations": len(chosen) * (steps + 1), "proposals": len(chosen) * steps}
        if "tokens" in parts.run.ledger.budget.limits():
            amounts["tokens"] = len(chosen) * steps * parts.purse.longest
        ticket = parts.run.ledger.reserve("states", step=step, **amounts)
        fleet = _Fleet(parts, [self.tasks[i] for i in chosen], step, steps)
        found = fleet.go(asked)
        if found is None:
            parts.run.ledger.release(ticket)
            return False
        states, spent = found
        key = states_key(step)
        payload = {"states": key, "tasks": [self.tasks[i].name for i in chosen], "count": len(states)}
        with parts.run.transaction():
            parts.run.put_completion(key, {"states": [_to_plain(one) for one in states]})
            parts.run.append("states", {**payload, "timing": {"wall_s": time.monotonic() - begun}}, step=step)
            parts.run.ledger.settle(ticket, **spent)
        parts.refreshed.add(step)
        parts.states.refresh(states)
        return True


class _Fleet:
    """The searches of one refresh."""

    def __init__(self, parts: Parts, tasks: Sequence[Task], step: int, steps: int) -> None:
        self.parts, self.tasks, self.step, self.steps = parts, tasks, step, steps
        # Such a pool works on the searches' own threads, and CPython 3.11 cannot parse on two of them at once (its issue 106905).
        self.judging = threading.RLock() if isinstance(parts.pool, InlinePool) else None

    def go(self, asked: Callable[[], bool]) -> tuple[list[PolicyState], dict[str, float]] | None:
        """What they reached, in the order of the tasks, and what they spent; None if it was asked to stop."""
        episode = self.parts.recipe.episode
        model = EngineModel(self.parts.engine, Sampling(episode.max_tokens, episode.temperature))
        folders = [self._folder(i) for i in range(len(self.tasks))]
        with ExitStack() as stack:
            home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="coevo-searches-")))
            shared = stack.enter_context(SharedModel(model, len(self.tasks)))
            threads = stack.enter_context(ThreadPoolExecutor(len(self.tasks), "coevo-own-search"))
            seats = [shared.seat() for _ in self.tasks]
            left = {
                threads.submit(self._search, i, home / folder, seat)
                for i, (folder, seat) in enumerate(zip(folders, seats, strict=True))
            }
            done: set[Future[Any]] = set()
            stopped = False
            while left:
                some, left = wait(left, timeout=_LOOK_S)
                done |= some
                failed = any(future.exception() for future in some)
                if not stopped and (failed or asked()):
                    stopped = True
                    for folder in folders:
                        with suppress(OSError):
                            (home / folder / STOP_FILE).touch()
                    if failed:
                        shared.cancel("another search of this refresh failed")
            if stopped and not any(future.exception() for future in done):
                return None
            results = sorted(future.result() for future in done)
        return self._gathered(results)

    def _gathered(self, results: Sequence[Any]) -> tuple[list[PolicyState], dict[str, float]]:
        states = [state for _, found, _ in results for state in found]
        names = [name for name in DIMENSIONS if name != "minutes"]
        return states, {name: sum(spent[name] for _, _, spent in results) for name in names}

    def _folder(self, i: int) -> str:
        return f"{i:04d}"

    def _search(self, i: int, path: Path, seat: Any) -> tuple[int, list[PolicyState], Mapping[str, float]]:
        """One search on its thread; its states, and what it spent."""
        task, recipe = self.tasks[i], self.parts.recipe
        seed = stream_seed(recipe.seed, "search", self.step, task.name) % 2**62
        config = recipe.states.search.model_copy(update={"seed": seed, "steps": self.steps, "verify": False})
        with seat:
            seat.order = i
            setup = Setup.of(task, search=config)
            with Run.create(path, kind=KIND, config=setup.model_dump(mode="json")) as run:
                result = search(
                    task,
                    run,
                    pool=TaskPool(self.parts.pool, task, self.judging),
                    config=config,
                    models=Ensemble([seat], [1.0]),
                )
                if result.stop in (Stop.MODEL_DOWN, Stop.MACHINE):
                    kind = ModelError if result.stop is Stop.MODEL_DOWN else InfrastructureError
                    raise kind(f"the policy's own search of task {task.name}: {result.message}")
                return i, list(_reached(run, task, setup, self.steps)), dict(result.spent)


def _reached(run: Run, task: Task, setup: Setup, steps: int) -> Iterator[PolicyState]:
    """What the policy was put before in a search: the states of its model steps, each with its half of the search."""
    shelf = Shelf(run, seed=evaluation_seed(setup))
    for traced in trace(run, setup, outline(run, _MODEL_STEPS), _MODEL_STEPS):
        context = context_of(shelf, traced)
        state = StartState(
            id=state_id(task.name, traced.style, context),
            task=task.name,
            context=context,
            style=traced.style,
            source=Source.POLICY,
            depth=traced.depth,
            known=frozenset(traced.known),
        )
        yield PolicyState(state, early=2 * traced.step <= steps)


_MODEL_STEPS = LineageConfig(operators=False)


def states_key(step: int) -> str:
    """Under which what a refresh reached is kept."""
    return f"states-{step}"


def recalled(run: Run) -> Iterator[tuple[int, list[PolicyState]]]:
    """What earlier refreshes of a run reached, with the step before which they were made."""
    for event in run.events(kinds=("states",)):
        kept = run.completion(event.payload["states"]) or {"states": []}
        yield event.step or 0, [_from_plain(row) for row in kept["states"]]


def copy_states(source: Run, target: Run, *, up_to: int) -> None:
    """Hand a branch what its parent's policy had reached by a step. The target's transaction is the caller's."""
    for event in source.events(kinds=("states",)):
        if (event.step or 0) <= up_to:
            target.put_completion(event.payload["states"], source.completion(event.payload["states"]) or {"states": []})
            target.append("states", event.payload, step=event.step)


def _to_plain(one: PolicyState) -> dict[str, Any]:
    return {"early": one.early, **to_row(Trajectory(one.state))}


def _from_plain(row: Mapping[str, Any]) -> PolicyState:
    return PolicyState(from_row({k: v for k, v in row.items() if k != "early"}).state, row["early"])
