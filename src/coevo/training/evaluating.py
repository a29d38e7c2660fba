"""The policy measured while it trains, on tasks that never train: same start states and same random numbers every time."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from coevo.episodes.known import Known
from coevo.episodes.running import run_episodes
from coevo.episodes.types import Rollout, Start, StartState
from coevo.streams import stream_seed
from coevo.tasks.types import Task
from coevo.training import batch as batches
from coevo.training.batch import Group
from coevo.training.history import Past
from coevo.training.parts import Parts
from coevo.training.purse import spent_on
from coevo.training.records import evidence
from coevo.training.rewards import is_copy

SPLIT = "eval"
"""Of the evidence rows of evaluations."""


@dataclass(frozen=True)
class Evaluator:
    """Evaluates the policy of a run, and keeps what it finds there."""

    parts: Parts
    starts: Sequence[StartState]
    """One per task."""
    tasks: Mapping[str, Task]
    known: Known = field(default_factory=Known)
    """Apart from that of training: its evaluations have another seed."""

    def due(self, step: int, past: Past) -> bool:
        """At the beginning, every so many steps, and after the recipe's last; unless it is there already."""
        recipe = self.parts.recipe
        regular = step == past.begin or step % recipe.evaluate.every == 0 or step == recipe.steps
        return regular and all(done != step for done, _ in past.evaluated)

    def evaluate(self, step: int) -> Mapping[str, float]:
        """Sample, judge, keep; the metrics (docs/training.md). Raises `BudgetSpent` before anything is started."""
        parts, recipe, begun = self.parts, self.parts.recipe, time.monotonic()
        samples = recipe.evaluate.samples
        ticket = parts.purse.reserve("evaluate", self.starts, samples=samples, step=step)
        orders = [Start(state, f"{state.task}", i) for state in self.starts for i in range(samples)]
        rollouts = run_episodes(
            parts.engine,
            orders,
            recipe.episode,
            pool=parts.pool,
            tasks=self.tasks,
            seed=stream_seed(recipe.seed, "evaluate"),
            step=0,
            known=self.known,
        )
        by_task: dict[str, list[Rollout]] = {state.task: [] for state in self.starts}
        for rollout in rollouts:
            by_task[rollout.group].append(rollout)
        groups = [batches.unscored_group(name, some, recipe.episode) for name, some in by_task.items()]
        metrics = figures(groups)
        if missing := [group for group in groups if not _of_task(group)]:
            why = next((rollout.unmeasured for rollout in missing[0].rollouts if rollout.unmeasured), "no reason given")
            parts.note(
                f"evaluation after step {step}: {len(missing)} of {len(groups)} tasks could not be measured, {missing[0].key!r} first ({why}); "
                "it counts neither for the best checkpoint nor for patience"
            )
        timing = {"wall_s": time.monotonic() - begun}
        with parts.run.transaction():
            parts.run.append("evaluated", {"metrics": metrics, "timing": timing}, step=step)
            parts.run.put_rollouts(evidence(parts, step, groups, split=SPLIT), step=step)
            parts.run.ledger.settle(ticket, **spent_on(rollouts))
        return metrics


def figures(groups: Sequence[Group]) -> dict[str, float]:
    """Means over the tasks measured of means over a task's rollouts; `best_*` are means over tasks of the best rollout by public tests.
    `tasks_measured` under `tasks` marks an evaluation that no other is compared with (`history.score_of`)."""
    rows = [row for row in map(_of_task, groups) if row]
    names = dict.fromkeys(name for row in rows for name in row)
    found = {name: fmean(row[name] for row in rows if name in row) for name in names}
    found["tasks"] = len(groups)
    found["tasks_measured"] = len(rows)
    return found


def _of_task(group: Group) -> dict[str, float]:
    """Of one task; a rollout that could not be measured says nothing."""
    done = [
        (list(filter(None, row)), batches.truth_of(rollout))
        for rollout, row in zip(group.rollouts, group.samples, strict=True)
        if row and not rollout.unmeasured
    ]
    if not done:
        return {}
    values = [batches.fitness_after(row) for row, _ in done]
    lasts = [row[-1] for row, _ in done]
    best = max(range(len(done)), key=lambda i: values[i])
    found = {
        "fitness": fmean(values),
        "gain": fmean(values) - done[0][0][0].parent_fitness,
        "share_right": fmean(batches.is_right(row) for row, _ in done),
        "best_fitness": values[best],
        "contract_ok": fmean(sample.contract_ok or is_copy(sample) for sample in lasts),
        "copy_rate": fmean(is_copy(sample) for sample in lasts),
    }
    truths = [truth for _, truth in done if truth is not None]
    if truths:
        found["truth"] = fmean(truths)
    if (truth := done[best][1]) is not None:
        found["best_truth"] = truth
    return found
