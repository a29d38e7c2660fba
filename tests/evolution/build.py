"""Candidates and configs for tests of the search's pure parts."""

from __future__ import annotations

import random
from typing import Any

from coevo.evaluation.types import Failure, Outcome
from coevo.evolution.records import Candidate, Decision, Summary, Traits, packed
from coevo.evolution.settings import SearchConfig
from coevo.evolution.state import State
from coevo.evolution.types import Edit


def program_id(number: int) -> str:
    return f"{number:016x}"


def candidate(
    step: int,
    fitness: float | None,
    *,
    parent: int | None = None,
    island: int = 0,
    edit: Edit = Edit.MUTATE,
    program: int | None = None,
    structure: str | None = None,
    descriptors: tuple[float, float] = (100.0, 3.0),
    sketch: tuple[int, ...] = (),
    duplicate: bool = False,
    **more: Any,
) -> Candidate:
    """A measured step; `fitness` None is a failure, whose fitness is 0."""
    edit = Edit.START if step == 0 else edit
    number = step if program is None else program
    if fitness is None:
        summary = Summary(Outcome.FAILED, 0.0, failure=Failure.CRASH)
    else:
        summary = Summary(Outcome.SCORED, fitness, score=fitness)
    return Candidate(
        Decision(step, edit, island, "" if parent is None else program_id(parent)),
        program=program_id(number),
        traits=Traits(structure or f"s{number}", f"k{number}", 3, descriptors, packed(sketch or (number,))),
        evaluation=summary,
        duplicate=duplicate,
        **more,
    )


def random_state(
    config: SearchConfig, steps: int, seed: int, *, failures: float = 0.2
) -> tuple[State, list[Candidate]]:
    """A state after `steps` random candidates whose parents are members of the island of their step."""
    rng = random.Random(seed)
    state = State(config, {})
    applied: list[Candidate] = []
    for step in range(steps):
        island = state.archive.islands[step % len(state.archive.islands)]
        parent = None
        if step:
            ids = sorted(island.members) or [program_id(0)]
            parent = int(rng.choice(ids), 16)
        child = candidate(
            step,
            None if step and rng.random() < failures else round(rng.random(), 2),
            parent=parent,
            island=island.index if step else 0,
            structure=f"s{rng.randrange(12)}",
            descriptors=(rng.choice([20.0, 90.0, 400.0]), float(rng.randrange(12))),
            sketch=tuple(sorted(rng.sample(range(64), 8))),
        )
        state.apply(child)
        applied.append(child)
    return state, applied
