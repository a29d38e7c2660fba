"""The meta loop with nothing hidden: evolve -> synth -> train -> evolve, in one file.

    python examples/meta_loop.py [--policy FOLDER] [--tasks 24] [--steps 60] [--seed 0]

A policy (a small language model) improves programs over rounds. Its own searches leave states: a program, what the tests said of it, and
earlier attempts. It is trained on those, rewarded by executing what it writes, and searches again, on tasks that it has not seen.

What is here: a judge behind walls, THE prompt (searching and training show the policy the same), states from lineages, rewards and
advantages, a policy-gradient step, and a last measurement on hidden tests. What `coevo` adds: worker processes that judge while
the policy still samples, a store that survives `kill -9`, group filters and their replacements, an entropy floor, a diversity filter
and checks for contamination, budgets, evidence, checkpoints with cards, and studies that say whether a gain is one (`coevo bench`).

How it departs from the real one, on purpose:
1. One process; a search keeps only the best program of its task and its last few attempts.
2. The reward is what such a search earns: max(0, gain over the parent). A group's advantages say what each reply adds to the best of
   K, since that is what the search keeps of its K children.
3. The states are those of the policy before training, and are not refreshed.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean

from coevo.engines.opening import open_engine
from coevo.engines.settings import EngineConfig
from coevo.engines.types import Engine, LossConfig, OptimConfig, Prompt, Row, Sampled
from coevo.evaluation.judges import Judges
from coevo.evolution.edits import apply_rewrite
from coevo.evolution.prompt import TaskView, build_messages
from coevo.evolution.types import Attempt, Context, Edit
from coevo.mini.families import SEEN
from coevo.mini.pretrain import mini_folder
from coevo.mini.tasks import mini_tasks
from coevo.streams import stream, stream_seed
from coevo.tasks.types import Split, Task
from coevo.training.advantages import best_of_k

ROUNDS, CHILDREN = 5, 4
"""Of a search: the best program so far gets so many children at a time."""
GROUPS, GROUP = 8, 8
"""Of a training step: states, and replies to each."""
MAX_NEW = 96
"""Tokens of a reply."""


@dataclass
class Search:
    """One task's search: what it has, and every state it went through."""

    task: Task
    best: Attempt
    history: list[Attempt] = field(default_factory=list)
    states: list[Context] = field(default_factory=list)

    def state(self) -> Context:
        """What the policy is shown: the best program and up to two earlier attempts, worst first."""
        earlier = sorted(self.history[-2:], key=lambda attempt: attempt.fitness or 0.0)
        return Context(self.best, history=tuple(earlier))


class Bench:
    """The two things that both searching and training need: replies to states, and what they are worth."""

    def __init__(self, policy: Engine, judges: Judges) -> None:
        self.policy, self.judges = policy, judges
        self.judged = 0

    def ask(self, asked: Sequence[tuple[Task, Context]], *, seeds: Sequence[int]) -> list[tuple[Prompt, Sampled]]:
        """One reply to each state, all sampled together."""
        prompts = []
        for (task, context), seed in zip(asked, seeds, strict=True):
            messages = build_messages(TaskView.of(task.config), context, style=Edit.REWRITE)
            prompts.append(Prompt(self.policy.codec.encode_chat(messages), MAX_NEW, seed=seed))
        return list(zip(prompts, self.policy.sample(prompts), strict=True))

    def child(self, task: Task, parent: Attempt, reply: Sampled) -> Attempt | None:
        """The program in a reply and how it did on public tests; None where there is none, or where the machine failed."""
        proposal = apply_rewrite(parent.program, self.policy.codec.decode(reply.token_ids))
        if proposal.program is None:  # No code, cut off, or the parent handed back.
            return None
        return self.measure(task, Attempt(proposal.program, None), "public")

    def measure(self, task: Task, attempt: Attempt, split: Split) -> Attempt | None:
        """The attempt as the judge sees it. The program runs in the sandbox; the answers it is held against never get there."""
        e = self.judges.evaluate(task.name, attempt.program, split=split, seed=1)
        self.judged += 1
        if e.fitness is None:  # Unmeasured is not zero.
            return None
        return Attempt(attempt.program, e.fitness, e.correctness, feedback=e.feedback)


def evolve(bench: Bench, tasks: Sequence[Task], seed: int) -> list[Search]:
    """Search on all tasks at once, so that replies are sampled in large batches."""
    searches = []
    for task in tasks:
        start = bench.measure(task, Attempt(task.start, None), "public")
        assert start is not None, "this machine cannot judge the start program"
        searches.append(Search(task, start))
    for round in range(ROUNDS):
        open_ones = [search for search in searches if (search.best.fitness or 0.0) < 1.0]
        asked = [(search, search.state()) for search in open_ones for _ in range(CHILDREN)]
        seeds = [stream_seed(seed, "evolve", round, i) for i in range(len(asked))]
        replies = bench.ask([(search.task, state) for search, state in asked], seeds=seeds) if asked else []
        for search in open_ones:
            search.states.append(search.state())
        for (search, state), (_, reply) in zip(asked, replies, strict=True):
            child = bench.child(search.task, state.parent, reply)
            if child is None:
                continue
            if (child.fitness or 0.0) > (search.best.fitness or 0.0):
                child, search.best = search.best, child  # The parent becomes an earlier attempt.
            search.history.append(child)
    return searches


def synth(searches: Sequence[Search]) -> list[tuple[Task, Context]]:
    """Every state that a search went through, early ones and late ones alike, each once."""
    seen: dict[tuple[str, str], tuple[Task, Context]] = {}
    for search in searches:
        for state in search.states:
            seen.setdefault((search.task.name, state.parent.program.id), (search.task, state))
    return list(seen.values())


def train(bench: Bench, states: Sequence[tuple[Task, Context]], *, steps: int, lr: float, seed: int) -> None:
    """Policy gradient: replies that add to the best of K become likelier."""
    for step in range(1, steps + 1):
        chosen = stream(seed, "states", step).choices(states, k=GROUPS)
        asked = [pair for pair in chosen for _ in range(GROUP)]
        seeds = [stream_seed(seed, "train", step, i) for i in range(len(asked))]
        replies = bench.ask(asked, seeds=seeds)
        gains = [gain(bench, task, state, reply) for (task, state), (_, reply) in zip(asked, replies, strict=True)]
        rows: list[Row] = []
        for group in range(GROUPS):
            at = slice(group * GROUP, (group + 1) * GROUP)
            if max(gains[at]) - min(gains[at]) <= 1e-6:
                continue  # A dead group: nothing to prefer.
            advantages = best_of_k(gains[at], CHILDREN)
            rows += [row(pair, a, f"{step}.{group}") for pair, a in zip(replies[at], advantages, strict=True)]
        if not rows:
            continue
        learnt = bench.policy.forward_backward(rows, LossConfig(name="dapo"))
        bench.policy.optim_step(lr, OptimConfig())
        if step % max(1, steps // 10) == 0:
            print(f"step {step}: mean gain {fmean(gains):.3f}, entropy {learnt.entropy:.2f}, rows {len(rows)}")


def gain(bench: Bench, task: Task, state: Context, reply: Sampled) -> float:
    """What a search that keeps its parent earns by a reply: nothing for a worse one, nothing for a copy."""
    child = bench.child(task, state.parent, reply)
    return max(0.0, (child.fitness or 0.0) - (state.parent.fitness or 0.0)) if child is not None else 0.0


def row(pair: tuple[Prompt, Sampled], advantage: float, group: str) -> Row:
    """The very tokens that were sampled, with the probabilities they were sampled at."""
    prompt, reply = pair
    n = len(reply.token_ids)
    ids = (*prompt.ids, *reply.token_ids)
    return Row(ids, len(prompt.ids), (advantage,) * n, (True,) * n, reply.logprobs, group=group)


def hidden(bench: Bench, searches: Sequence[Search]) -> float:
    """Mean fitness of the best programs on tests that no search ever saw."""
    found = [bench.measure(search.task, search.best, "hidden") for search in searches]
    return fmean(attempt.fitness or 0.0 for attempt in found if attempt is not None)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--policy", type=Path, help="a Hugging Face folder; default: the mini model, trained on first use"
    )
    parser.add_argument("--size", default="mini", help="of the mini model: mini or tiny")
    parser.add_argument("--tasks", type=int, default=24, help="tasks to train on, and as many to measure on")
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    seen = mini_tasks(tuple(SEEN), part="train", count=args.tasks, seed=args.seed)
    unseen = mini_tasks(tuple(SEEN), part="test", count=args.tasks, seed=args.seed)  # No solution is in both.
    folder = args.policy or mini_folder(args.size, notify=print)
    with tempfile.TemporaryDirectory() as states_folder, Judges([*seen, *unseen]) as judges:
        policy = open_engine(str(folder), EngineConfig(), folder=Path(states_folder), seed=args.seed)
        bench = Bench(policy, judges)

        before = hidden(bench, evolve(bench, unseen, args.seed))
        states = synth(evolve(bench, seen, args.seed + 1))
        print(f"{len(states)} states from {len(seen)} searches of the untrained policy")
        train(bench, states, steps=args.steps, lr=args.lr, seed=args.seed)
        after = hidden(bench, evolve(bench, unseen, args.seed))
        policy.close()
    print(f"programs judged: {bench.judged}")
    print(f"before: {before:.4f}")
    print(f"after: {after:.4f}")


if __name__ == "__main__":
    main()
