"""Start states from a recorded search: every committed step, as it stood when it was decided.

What a step was shown (archive, last rejection, an operator's would-be history) follows from the committed events: the search's
own state is folded again, and looked at after exactly as many commits as the decision had.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from coevo.evaluation.types import Outcome
from coevo.evolution.decide import history_of
from coevo.evolution.records import Candidate
from coevo.evolution.session import Setup
from coevo.evolution.settings import MODEL_EDITS
from coevo.evolution.shelf import Shelf
from coevo.evolution.state import State
from coevo.evolution.types import Context, Edit, Rejection
from coevo.runs import Run
from coevo.streams import stream_seed
from coevo.trajectories.settings import LineageConfig


@dataclass(frozen=True)
class Traced:
    """One step as a start state: program ids and what describes them."""

    step: int
    style: Edit
    parent: str
    history: tuple[str, ...]
    others: tuple[str, ...]
    rejected: str
    known: tuple[str, ...]
    depth: int
    fitness: float
    """Of the parent."""
    right: bool
    next: str | None
    outcome: str
    """scored or failed; or why there is no next program."""


class _Known(NamedTuple):
    depth: int
    fitness: float
    right: bool


class _Due(NamedTuple):
    step: int
    parent: str
    model: bool


class _Shown(NamedTuple):
    """What the state said when a step was decided."""

    rejected: str
    known: tuple[str, ...]
    history: tuple[str, ...]
    """What a model would have seen of the parent's past."""


@dataclass
class Outline:
    """What one pass over a run's events tells."""

    steps: list[int] = field(default_factory=list)
    """Steps that make a row."""
    dropped: Counter[str] = field(default_factory=Counter)
    programs: dict[int, _Known] = field(default_factory=dict)
    due: dict[int, list[_Due]] = field(default_factory=lambda: defaultdict(list))
    """These steps, by the number of commits at which they were decided."""
    best: float | None = None
    """Best fitness of the run."""


def evaluation_seed(setup: Setup) -> int:
    """The seed with which a search evaluates all its candidates."""
    return stream_seed(setup.search.seed, "evaluation") % 2**31


def outline(run: Run, config: LineageConfig) -> Outline:
    """Which steps of a search make rows. `dropped` counts the others: `unmeasured` (the child or its parent), `no_reply` (a
    model that failed), `operators` and `rejected` by config, `per_run`."""
    found = Outline()
    for event in run.events(kinds=("candidate",)):
        candidate = Candidate.from_dict(event.step or 0, event.payload)
        parent = found.programs.get(int(candidate.decision.parent, 16)) if candidate.decision.parent else None
        if candidate.decision.edit is not Edit.START:
            reason = _refusal(candidate, parent, config)
            if reason:
                found.dropped[reason] += 1
            else:
                decision = candidate.decision
                found.steps.append(candidate.step)
                found.due[decision.at].append(_Due(candidate.step, decision.parent, decision.edit in MODEL_EDITS))
        _note(found, candidate, parent)
    if config.per_run is not None and len(found.steps) > config.per_run:
        count = len(found.steps)
        kept = {found.steps[i * count // config.per_run] for i in range(config.per_run)}
        found.dropped["per_run"] = count - len(kept)
        found.steps = sorted(kept)
        found.due = {at: left for at, dues in found.due.items() if (left := [due for due in dues if due.step in kept])}
    return found


def _refusal(candidate: Candidate, parent: _Known | None, config: LineageConfig) -> str:
    summary = candidate.evaluation
    if candidate.rejection is Rejection.MODEL_FAILED:
        return "no_reply"
    if candidate.decision.edit not in MODEL_EDITS and not config.operators:
        return "operators"
    if candidate.rejection is not None and not config.rejected:
        return "rejected"
    lost = summary is None and candidate.rejection is None
    if parent is None or lost or (summary is not None and summary.outcome is Outcome.UNMEASURED):
        return "unmeasured"
    return ""


def _note(found: Outline, candidate: Candidate, parent: _Known | None) -> None:
    summary = candidate.evaluation
    if candidate.program is None or summary is None or summary.fitness is None:
        return
    depth = 0 if candidate.decision.edit is Edit.START else (parent.depth + 1 if parent else 1)
    known = _Known(depth, summary.fitness, summary.correctness == 1)
    found.programs.setdefault(int(candidate.program, 16), known)
    if candidate.scored and (found.best is None or summary.fitness > found.best):
        found.best = summary.fitness


def trace(run: Run, setup: Setup, found: Outline, config: LineageConfig) -> Iterator[Traced]:
    """The steps of an outline, in order. Holds the search's state and the steps that were in flight, no more."""
    state = State(setup.search, run.ledger.budget.limits())
    wanted = frozenset(found.steps)
    shown: dict[int, _Shown] = {}
    for event in run.events(kinds=("candidate",)):
        for due in found.due.get(state.commits, ()):
            shown[due.step] = _shown(state, due, config)
        candidate = Candidate.from_dict(event.step or 0, event.payload)
        if candidate.step in wanted:
            yield _traced(candidate, found, shown.pop(candidate.step))
        state.apply(candidate)


def _shown(state: State, due: _Due, config: LineageConfig) -> _Shown:
    islands = state.archive.islands
    island = islands[due.step % len(islands)]
    rejected = state.rejected.get(due.parent, "") if due.model and state.strategy.history else ""
    history = () if due.model else history_of(state, island, due.parent)
    return _Shown(rejected, _fittest(state, config.known), history)


def _fittest(state: State, count: int) -> tuple[str, ...]:
    """Ids of the best programs kept, all islands together."""
    found: dict[str, None] = {}
    for _, _, program in heapq.merge(*(island.ranked for island in state.archive.islands)):
        if len(found) >= count:
            break
        found[program] = None
    return tuple(found)


def _traced(candidate: Candidate, found: Outline, shown: _Shown) -> Traced:
    decision, summary = candidate.decision, candidate.evaluation
    model = decision.edit in MODEL_EDITS
    parent = found.programs[int(decision.parent, 16)]
    rejection = candidate.rejection.value if candidate.rejection else ""
    around = {decision.parent, *decision.history, *shown.history, *decision.others}
    return Traced(
        step=candidate.step,
        style=decision.edit if model else Edit.REWRITE,
        parent=decision.parent,
        history=decision.history if model else shown.history,
        others=decision.others if model else (),
        rejected=shown.rejected,
        known=tuple(program for program in shown.known if program not in around),
        depth=parent.depth,
        fitness=parent.fitness,
        right=parent.right,
        next=candidate.program if summary is not None else None,
        outcome=summary.outcome.value if summary is not None else rejection,
    )


def context_of(shelf: Shelf, traced: Traced) -> Context:
    """What the step was shown. `shelf` is of the search's run."""
    return Context(
        parent=shelf.attempt(traced.parent),
        inspirations=shelf.attempts(traced.others),
        history=shelf.worst_first(traced.history),
        rejected=traced.rejected,
    )
