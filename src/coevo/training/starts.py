"""The start programs of evaluation tasks, judged once per run: what an evaluation's gain is measured from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from coevo.episodes.standing import attempt_of
from coevo.episodes.types import Source, StartState
from coevo.errors import InfrastructureError
from coevo.evaluation.judges import measure
from coevo.evaluation.types import Evaluation
from coevo.evolution.types import Attempt, Context, Edit
from coevo.streams import stream_seed
from coevo.tasks.types import Task
from coevo.training.sources import program_state
from coevo.trajectories.rows import state_id

if TYPE_CHECKING:
    from coevo.training.parts import Parts

_SHOWN = ("fitness", "correctness", "efficiency", "speedup", "score", "feedback")


def evaluation_starts(parts: Parts, tasks: Sequence[Task]) -> list[StartState]:
    """One start state per task, by `evaluate.start`; judged now, or as the run remembers. Raises `InfrastructureError` for a task
    whose start program cannot be measured."""
    recipe = parts.recipe
    style = recipe.evaluate.start
    if style == "auto":
        only_statements = all(name == Source.STATEMENT or not share for name, share in recipe.states.mix.items())
        style = "statement" if only_statements else "program"
    known = _remembered(parts) or _judged(parts, tasks)
    states = []
    for task in tasks:
        start = Attempt(task.start, *(known[task.name][name] for name in _SHOWN))
        if style == "program":
            states.append(program_state(task, start, Edit(recipe.states.style)))
        else:
            context = Context(start)
            identity = state_id(task.name, Edit.WRITE, context)
            states.append(StartState(identity, task.name, context, Edit.WRITE, Source.STATEMENT))
    return states


def _remembered(parts: Parts) -> dict[str, dict[str, Any]]:
    for event in parts.run.events(kinds=("starts",)):
        return event.payload["starts"]
    return {}


def _judged(parts: Parts, tasks: Sequence[Task]) -> dict[str, dict[str, Any]]:
    seed = stream_seed(parts.recipe.seed, "starts") % 2**31
    ticket = parts.run.ledger.reserve("evaluate", evaluations=len(tasks))
    futures = [(task, parts.pool.submit(measure, task.name, task.start, "public", seed)) for task in tasks]
    found: dict[str, dict[str, Any]] = {}
    cpu = 0.0
    for task, future in futures:
        evaluation: Evaluation = future.result()
        if evaluation.fitness is None:
            raise InfrastructureError(
                f"the start program of task {task.name!r} could not be measured: {evaluation.reason}. `coevo evaluate` tries it alone"
            )
        shown = attempt_of(task.start, evaluation)
        found[task.name] = {name: getattr(shown, name) for name in _SHOWN}
        cpu += evaluation.cpu_s
    with parts.run.transaction():
        parts.run.append("starts", {"starts": found})
        parts.run.ledger.settle(ticket, evaluations=len(found), cpu_minutes=cpu / 60)
    return found
