"""What runs in worker processes: making a child from a parent, and judging it.

A worker gets values (one parent, its inspirations, a reply) and returns values; it never sees the archive, the run or
another candidate's evaluation.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from coevo.evaluation.judge import Judge
from coevo.evaluation.types import Evaluation, Failure, Outcome
from coevo.evolution.edits import apply_reply
from coevo.evolution.features import features
from coevo.evolution.operators import constants, mutate, splice, tune
from coevo.evolution.records import Traits, packed
from coevo.evolution.types import Context, Edit, Proposal, Rejection
from coevo.programs import Program
from coevo.tasks.types import Split, Task


@dataclass(frozen=True)
class Order:
    """One proposal to make."""

    edit: Edit
    context: Context
    reply: str = ""
    """Of the model, for rewrite, diff, crossover and write."""
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


def traits_of(program: Program) -> Traits:
    """The descriptors that the archive and the tuner go by."""
    found, numbers = features(program), constants(program)
    return Traits(
        structure=found.structure,
        skeleton=numbers.skeleton,
        constants=len(numbers.vector),
        descriptors=found.descriptors,
        sketch=packed(found.sketch),
    )


def _proposal(order: Order) -> Proposal:
    context, parent = order.context, order.context.parent.program
    match order.edit:
        case Edit.START:
            return Proposal(Edit.START, parent)
        case Edit.REWRITE | Edit.CROSSOVER | Edit.WRITE | Edit.DIFF:
            return apply_reply(parent, order.reply, order.edit)
        case Edit.TUNE:
            if not order.offsets:
                return Proposal(Edit.TUNE, None, Rejection.NOTHING_TO_CHANGE, "The program has no constants to tune.")
            return tune(parent, order.offsets)
        case Edit.MUTATE:
            return mutate(parent, random.Random(order.seed))
        case Edit.SPLICE:
            other = context.inspirations[0].program if context.inspirations else parent
            return splice(parent, other, random.Random(order.seed))
