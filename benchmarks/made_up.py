"""Children and evaluations made up in a worker, for measuring the driver of a search alone (see bench_search.py)."""

from __future__ import annotations

import random
from typing import Any

from coevo.evaluation.types import Evaluation, Outcome
from coevo.evolution.records import Traits, packed
from coevo.evolution.types import Proposal
from coevo.evolution.worker import Made, Order
from coevo.programs import Program


def made_up_child(state: Any, order: Order) -> Made:
    """A child of 5 KB, new by its seed, with traits like those of real programs."""
    rng = random.Random(order.seed)
    program = Program.of(f"A = {order.seed}\n" + "x = 1\n" * 830)
    program.__dict__["id"] = f"{rng.getrandbits(64):016x}"
    traits = Traits(
        structure=f"{rng.getrandbits(64):016x}",
        skeleton=f"{rng.getrandbits(64):016x}",
        constants=12,
        descriptors=(rng.uniform(200, 20_000), rng.uniform(0, 60)),
        sketch=packed(sorted(rng.getrandbits(32) for _ in range(32))),
    )
    return Made(Proposal(order.edit, program), traits)


def made_up_evaluation(state: Any, program: Program, split: Any, seed: int) -> Evaluation:
    """A score by the program's id."""
    value = int(program.id, 16) / 2**64
    return Evaluation(
        program.id, "number", split, seed, Outcome.SCORED, value, 1.0, score=value, feedback="score", cpu_s=0.001
    )
