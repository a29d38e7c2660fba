"""What a training run's events say: where it stands, and its curve. All of a trainer's memory is a fold of these.

    starts      once: how the tasks' start programs do
    branched    once, of a branch: its parent, and the state it goes on from
    states      before a step: what the policy's own searches reached
    batch       step n: rollouts were made, judged and scored; names the rows as trained, or says why there are none
    update      step n: what the optimizer did with them
    evaluated   after step n: the policy on the evaluation's tasks

Both events of a step come with their rows in one transaction each; a step counts as made with its `update`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from coevo.runs import Run
from coevo.training.entropy import EntropyState
from coevo.training.filters import FilterState

SCORE = "fitness"
"""The figure of an evaluation that checkpoints are chosen by: mean fitness on public tests. The hidden truth only reports."""


def score_of(metrics: Mapping[str, Any]) -> float | None:
    """What an evaluation is compared by; None where not all of its tasks were measured: a mean over other tasks is another figure."""
    whole = metrics.get("tasks_measured") == metrics.get("tasks")
    return metrics.get(SCORE) if whole else None


@dataclass(frozen=True)
class Past:
    """Where a run stands."""

    filter: FilterState
    entropy: EntropyState
    begin: int = 0
    """Steps behind the weights it began with: 0, or the branch's."""
    batch: int = 0
    """The last step whose batch is there."""
    made: int = 0
    """The last step whose update is there: `batch`, or one less."""
    kl: float | None = None
    """Of the last update that measured it."""
    evaluated: tuple[tuple[int, float | None], ...] = ()
    """(step, score) of the evaluations, in order; no score where a task could not be measured."""

    @property
    def best(self) -> tuple[int, float] | None:
        """The best evaluation, the earliest among equals."""
        scored = [(step, score) for step, score in self.evaluated if score is not None]
        return max(scored, key=lambda pair: (pair[1], -pair[0]), default=None)

    @property
    def since_best(self) -> int:
        """Evaluations after the best one; those without a score do not count."""
        best = self.best
        return sum(1 for step, score in self.evaluated if best is not None and score is not None and step > best[0])


def past_of(run: Run) -> Past:
    """Fold a run's events."""
    begin = batch = made = 0
    filters, entropy, kl = FilterState(), EntropyState(), None
    evaluated: list[tuple[int, float | None]] = []
    for event in run.events(kinds=("branched", "batch", "update", "evaluated")):
        row, step = event.payload, event.step or 0
        if event.kind == "branched":
            begin = batch = made = step
        if event.kind in ("branched", "batch"):
            batch, filters = step, FilterState.from_dict(row["filter"])
        if event.kind in ("branched", "update"):
            made, entropy = step, EntropyState.from_dict(row["entropy"])
            kl = row.get("metrics", {}).get("kl", kl)
        if event.kind == "evaluated":
            evaluated.append((step, score_of(row["metrics"])))
    return Past(filters, entropy, begin, batch, made, kl, tuple(evaluated))


def best_step(run: Run) -> int | None:
    """The step whose evaluation was best; None where nothing was evaluated."""
    best = past_of(run).best
    return best[0] if best else None


def curve(run: Run) -> Iterator[dict[str, Any]]:
    """One row per step made: `step`, `skipped`, and all its metrics by name (docs/training.md), times among them."""
    held: dict[str, Any] = {}
    for event in run.events(kinds=("batch", "update")):
        if event.kind == "batch":
            held = {"step": event.step, **_figures(event.payload), "skipped": event.payload["skipped"]}
        else:
            skipped = event.payload["skipped"] or held.get("skipped", "")
            yield {**held, **_figures(event.payload), "skipped": skipped}


def evaluations(run: Run) -> Iterator[dict[str, Any]]:
    """One row per evaluation: `step` and its metrics."""
    for event in run.events(kinds=("evaluated",)):
        yield {"step": event.step, **event.payload["metrics"]}


def summary(run: Run) -> dict[str, Any]:
    """First and last of what matters: means over up to ten steps at either end, and the first, last and best evaluation."""
    rows = list(curve(run))
    found: dict[str, Any] = {"steps": len(rows), "skipped": sum(1 for row in rows if row["skipped"])}
    count = max(1, min(_ENDS, len(rows) // 2))
    ends = {"first": rows[:count], "last": rows[-count:]}
    for name in ("reward_mean", "reward_mean_kept", "truth", "fitness", "gain", "share_right", "copy_rate", "entropy"):
        for end, some in ends.items():
            values = [row[name] for row in some if row.get(name) is not None]
            if values:
                found[f"{name}_{end}"] = sum(values) / len(values)
    walls = [row for row in rows if row.get("wall_s")]
    if walls:
        wall = sum(row["wall_s"] for row in walls)
        found["step_s"] = wall / len(walls)
        found["wait_share"] = sum(row.get("wait_s", 0.0) for row in walls) / wall
    judged = [row for row in evaluations(run) if score_of(row) is not None]
    if judged:
        found["eval_first"], found["eval_last"] = judged[0], judged[-1]
        found["eval_best"] = max(judged, key=lambda row: (row[SCORE], -row["step"]))
    return found


_ENDS = 10


def _figures(payload: Mapping[str, Any]) -> dict[str, Any]:
    return {**payload.get("metrics", {}), **payload.get("timing", {})}
