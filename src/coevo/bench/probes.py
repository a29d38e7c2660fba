"""Does a policy use what the prompt tells it? The same start states, with one part of the prompt spoilt.

Variants: `true`, as a search would show it; `feedback`, with the feedback of parent and history swapped for that of another task's
state; `history`, with no earlier attempts. A policy that reads feedback gains less when it is of another program; one for which the
variants are alike only guesses. Samples of a state have the same seeds in every variant.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from coevo.errors import InfrastructureError
from coevo.evaluation.judge import Judge
from coevo.evaluation.pool import Pool
from coevo.evaluation.pool_task import TaskPool
from coevo.evolution.prompt import TaskView, build_messages
from coevo.evolution.records import Candidate
from coevo.evolution.session import Setup
from coevo.evolution.settings import MODEL_EDITS
from coevo.evolution.shelf import Shelf
from coevo.evolution.types import Attempt, Context, Edit
from coevo.evolution.worker import Order, measure, propose
from coevo.models.types import Model, StopReason
from coevo.runs import Run
from coevo.stats import Interval, bootstrap_ci
from coevo.streams import stream, stream_seed
from coevo.tasks.types import Task

VARIANTS = ("true", "feedback", "history")

_NO_PROGRAM = (StopReason.FAILED, StopReason.REFUSAL)


@dataclass(frozen=True)
class State:
    """A place in a recorded search from which a better program was possible."""

    task: Task
    context: Context
    style: Edit
    seed: int
    """With which the search judged."""


@dataclass(frozen=True)
class Probed:
    """Of one state and variant, over its samples."""

    variant: str
    task: str
    state: int
    samples: int
    """Measured."""
    gain: float
    """Mean of max(0, f(child) - f(parent)), public."""
    improving: float
    copies: float

    def to_dict(self) -> dict[str, Any]:
        return dict(vars(self))


def states_of(folders: Sequence[Path], tasks: Mapping[str, Task], *, count: int, seed: int) -> list[State]:
    """Up to `count` states from run folders of searches, evenly over tasks: those with a parent that is not perfect, feedback, and at least
    one earlier attempt."""
    by_task: list[list[State]] = []
    for folder in folders:
        with Run.open(folder, write=False) as run:
            found = _states(run, tasks)
        if found:
            stream(seed, "probe-states", found[0].task.name).shuffle(found)
            by_task.append(found)
    picked: list[State] = []
    while by_task and len(picked) < count:
        for found in by_task:
            picked.append(found.pop())
        by_task = [found for found in by_task if found]
    return picked[:count]


def _states(run: Run, tasks: Mapping[str, Task]) -> list[State]:
    setup = Setup.read(run)
    judge_seed = stream_seed(setup.search.seed, "evaluation") % 2**31
    shelf = Shelf(run, seed=judge_seed)
    found: dict[tuple[str, tuple[str, ...]], State] = {}
    name = next(
        (name for name, task in tasks.items() if str(task.folder) in setup.task.ref or name == setup.task.ref), ""
    )
    if not name:
        return []
    for event in run.events(kinds=("candidate",)):
        decision = Candidate.from_dict(event.step or 0, event.payload).decision
        if decision.edit not in MODEL_EDITS or not decision.history:
            continue
        parent = shelf.attempt(decision.parent)
        if not parent.feedback or parent.fitness is None or parent.fitness >= 1:
            continue
        context = Context(parent, shelf.attempts(decision.others), shelf.worst_first(decision.history))
        found.setdefault((decision.parent, decision.history), State(tasks[name], context, decision.edit, judge_seed))
    return list(found.values())


def spoilt(states: Sequence[State], index: int, variant: str) -> Context:
    """The context of a state as a variant shows it. Feedback comes from the next state of another task, round the list."""
    state = states[index]
    if variant == "true":
        return state.context
    if variant == "history":
        return replace(state.context, history=())
    others = (states[(index + i) % len(states)] for i in range(1, len(states)))
    donor = next((other for other in others if other.task.name != state.task.name), state)
    words = [a.feedback for a in donor.context.history] or [donor.context.parent.feedback]
    history = tuple(replace(a, feedback=words[i % len(words)]) for i, a in enumerate(state.context.history))
    return replace(
        state.context, parent=replace(state.context.parent, feedback=donor.context.parent.feedback), history=history
    )


def probe(
    model: Model,
    states: Sequence[State],
    pool: Pool,
    *,
    samples: int,
    seed: int,
    prompt_chars: int,
    variants: Sequence[str] = VARIANTS,
    cancelled: Callable[[], bool] = lambda: False,
) -> list[Probed]:
    """Ask `model` for `samples` replies to every state in every variant, and judge them on public tests."""
    found: list[Probed] = []
    for variant in variants:
        if cancelled():
            raise KeyboardInterrupt
        requests = []
        for i, state in enumerate(states):
            messages = build_messages(
                TaskView.of(state.task.config), spoilt(states, i, variant), style=state.style, max_chars=prompt_chars
            )
            for k in range(samples):
                key = f"probe-{i}-{k}"
                requests.append(model.sampling.request(messages, seed=stream_seed(seed, key) % 2**31, key=key))
        replies = model.generate(requests)
        futures = []
        for number, reply in enumerate(replies):
            state = states[number // samples]
            if reply.stop_reason in _NO_PROGRAM:
                continue
            pooled = TaskPool(pool, state.task)
            futures.append(
                (number // samples, pooled.submit(_tried, state.context.parent, state.style, reply.text, state.seed))
            )
        outcomes: dict[int, list[tuple[float, bool]]] = {}
        for i, future in futures:
            try:
                outcome = future.result()
            except InfrastructureError:
                continue
            if outcome is not None:
                outcomes.setdefault(i, []).append(outcome)
        found += [_probed(variant, i, states[i], outcomes[i]) for i in sorted(outcomes)]
    return found


def _tried(judge: Judge, parent: Attempt, style: Edit, reply: str, seed: int) -> tuple[float, bool] | None:
    """In a worker: fitness of the reply's program (the parent's where it holds none, since a search keeps its parent) and whether it
    is a copy; None where it cannot be measured."""
    made = propose(judge, Order(style, Context(parent), reply)).proposal
    before = parent.fitness or 0.0
    if made.program is None:
        return before, made.rejection is not None and made.rejection.value == "unchanged"
    if made.program.id == parent.program.id:
        return before, True
    fitness = measure(judge, made.program, "public", seed).fitness
    return None if fitness is None else (fitness, False)


def _probed(variant: str, index: int, state: State, outcomes: Sequence[tuple[float, bool]]) -> Probed:
    before = state.context.parent.fitness or 0.0
    n = len(outcomes)
    return Probed(
        variant,
        state.task.name,
        index,
        n,
        gain=sum(max(0.0, fitness - before) for fitness, _ in outcomes) / n,
        improving=sum(fitness > before for fitness, _ in outcomes) / n,
        copies=sum(copy for _, copy in outcomes) / n,
    )


def loss_by(probes: Sequence[Mapping[str, Any]], variant: str, *, seed: int) -> Interval | None:
    """How much gain a spoilt prompt costs: true minus variant, paired by state, mean over tasks, with a bootstrap interval over tasks.
    None without pairs. Above 0: the policy used what was spoilt."""
    gains = {(p["seed"], p["state"], p["variant"]): (p["task"], p["gain"]) for p in probes}
    by_task: dict[str, list[float]] = {}
    for (repetition, state, name), (task, gain) in gains.items():
        if name == "true" and (repetition, state, variant) in gains:
            by_task.setdefault(task, []).append(gain - gains[repetition, state, variant][1])
    values = [sum(ds) / len(ds) for ds in by_task.values()]
    return bootstrap_ci(values, seed=seed, method="percentile") if values else None
