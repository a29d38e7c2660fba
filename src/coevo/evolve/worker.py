"""What runs in worker processes: making a child from a parent, and judging it.

A worker gets values (one parent, its inspirations, a reply) and returns values; it never sees the archive, the run or
another candidate's evaluation.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from coevo.evaluate.judge import Judge
from coevo.evaluate.types import Evaluation, Failure, Outcome
from coevo.evolve import operators
from coevo.evolve.edits import apply_diff, apply_rewrite
from coevo.evolve.features import features
from coevo.evolve.records import Traits
from coevo.evolve.types import Context, Edit, Proposal, Rejection
from coevo.programs import Program
from coevo.tasks.types import Split, Task


@dataclass(frozen=True)
class Order:
    """One proposal to make."""

    edit: Edit
    context: Context
    reply: str = ""
    """Of the model, for rewrite, diff and crossover."""
    offsets: tuple[float, ...] = ()
    """`tune`: moves of the constants, in units of their scales."""
    seed: int = 0
    """Of the operator's random stream."""


@dataclass(frozen=True)
class Made:
    """A proposal, and the traits of its program."""

    proposal: Proposal
    traits: Traits | None


def propose(judge: Judge, order: Order) -> Made:
    """Make the child that an order describes. `judge` is the worker's state and is not used."""
    proposal = _proposal(order)
    if proposal.program is None:
        return Made(proposal, None)
    _ = proposal.program.id  # Hashed here, so that the driver need not.
    return Made(proposal, traits_of(proposal.program))


def measure(judge: Judge, program: Program, split: Split, seed: int) -> Evaluation:
    """Judge a program on one split."""
    return judge.evaluate(program, split=split, seed=seed)


def unmeasured(task: Task, program: Program, split: Split, seed: int, reason: str) -> Evaluation:
    """The evaluation of a program that the machine could not judge."""
    return Evaluation(
        program_id=program.id,
        task=task.name,
        split=split,
        seed=seed,
        outcome=Outcome.UNMEASURED,
        fitness=None,
        failure=Failure.INFRASTRUCTURE,
        reason=reason,
    )
