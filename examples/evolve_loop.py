"""The evolve loop with nothing hidden: a hundred lines that do what `coevo evolve` does, minus the care.

    python examples/evolve_loop.py [TASK] [--steps 200] [--islands 3] [--seed 0] [--model SPEC]

What is here: a judge behind walls, islands, parent selection, free operators, a model when one is given, duplicates by
normal form, and a last measurement on hidden tests. What `coevo.evolution` adds: parallel workers, a store that survives
`kill -9`, budgets, MAP-Elites cells, a bandit over proposers, CMA-ES, typed rejections that reach the next prompt.

How it departs from the real one, on purpose:
1. One candidate at a time, in one process.
2. An island is a sorted list; the worst falls off its end.
3. The operator is drawn uniformly; nothing learns which one pays.
"""

from __future__ import annotations

import argparse
import dataclasses

import coevo
from coevo.evaluation.judge import Judge
from coevo.evaluation.types import Evaluation
from coevo.evolution.edits import apply_rewrite
from coevo.evolution.operators import constants, mutate, splice, tune
from coevo.evolution.prompt import TaskView, build_messages
from coevo.evolution.types import Attempt, Context, Edit, Proposal
from coevo.models import open_model
from coevo.models.types import Model
from coevo.programs import Program
from coevo.streams import stream, stream_seed

KEEP = 12
"""Programs an island keeps."""
MIGRATE_EVERY = 40
"""Steps between migrations along the ring."""


@dataclasses.dataclass(frozen=True)
class Kept:
    program: Program
    evaluation: Evaluation

    @property
    def fitness(self) -> float:
        return self.evaluation.fitness or 0.0

    def attempt(self) -> Attempt:
        e = self.evaluation
        return Attempt(self.program, e.fitness, e.correctness, e.efficiency, e.speedup, e.score, e.feedback)


def ranked(island: list[Kept]) -> list[Kept]:
    return sorted(island, key=lambda kept: -kept.fitness)[:KEEP]


def propose(view: TaskView, island: list[Kept], model: Model | None, seed: int, step: int) -> Proposal:
    """A child of a parent drawn from the better half of an island."""
    rng = stream(seed, "propose", step)  # Its own stream: this step is the same whatever happened before.
    parent = island[min(rng.randrange(len(island)), rng.randrange(len(island)))]
    free = ["tune", "mutate", "splice"]
    choice = rng.choice(free if model is None else [*free, "model"])
    if choice == "tune":  # Two of its numbers move by about a tenth of their own size.
        count = len(constants(parent.program).vector)
        moved = set(rng.sample(range(count), min(2, count)))
        return tune(parent.program, tuple(rng.gauss(0, 0.1) if i in moved else 0.0 for i in range(count)))
    if choice == "mutate":
        return mutate(parent.program, rng)
    if choice == "splice":
        return splice(parent.program, rng.choice(island).program, rng)
    assert model is not None
    history = sorted(island[1:4], key=lambda kept: kept.fitness)  # Worst first, as a policy is trained to see them.
    context = Context(parent.attempt(), history=tuple(kept.attempt() for kept in history))
    messages = build_messages(view, context, style=Edit.REWRITE)
    request = model.sampling.request(messages, seed=stream_seed(seed, "model", step) % 2**31, key=f"step-{step}")
    return apply_rewrite(parent.program, model.generate([request])[0].text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("task", nargs="?", default="circle_packing:n=26")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--islands", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--model", help="a model spec, as for `coevo evolve`")
    args = parser.parse_args()

    task = coevo.load_task(args.task)
    view = TaskView.of(task.config)
    model = open_model(args.model) if args.model else None
    with Judge(task) as judge:  # Owns a sandbox; the candidates run in it, the scorer runs here.
        start = Kept(task.start, judge.evaluate(task.start, split="public", seed=args.seed))
        islands = [[start] for _ in range(args.islands)]
        seen = {start.program.id}
        best = start
        for step in range(1, args.steps + 1):
            here = step % args.islands
            proposal = propose(view, islands[here], model, args.seed, step)
            if proposal.program is None or proposal.program.id in seen:
                continue  # A typed rejection, or a program that was judged before.
            seen.add(proposal.program.id)
            child = Kept(proposal.program, judge.evaluate(proposal.program, split="public", seed=args.seed))
            if child.fitness <= 0.0:
                continue  # Failed: an outcome, but no parent.
            islands[here] = ranked([*islands[here], child])
            if child.fitness > best.fitness:
                best = child
                print(f"step {step}: {proposal.edit} on island {here} -> fitness {child.fitness:.6f}")
            if step % MIGRATE_EVERY == 0:  # The best of each island visits the next one.
                visitors = [island[0] for island in islands]
                for i, visitor in enumerate(visitors):
                    there = (i + 1) % args.islands
                    islands[there] = ranked([*islands[there], visitor])
        hidden_seed = stream_seed(args.seed, "verify") % 2**31  # What selects never reports.
        verified = [judge.evaluate(kept.program, split="hidden", seed=hidden_seed) for kept in (start, best)]
    print(f"programs judged: {len(seen)}")
    print(f"start: {verified[0].score if verified[0].score is not None else verified[0].fitness}")
    print(f"best: {verified[1].score if verified[1].score is not None else verified[1].fitness}")


if __name__ == "__main__":
    main()
