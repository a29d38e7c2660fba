"""What the free operators reach without any model: strategies and single operators at equal evaluations.

    python benchmarks/bench_operators.py [--evaluations 300] [--seeds 3] [--task NAME ...] [--arm NAME ...] [--json FILE]

Every (task, arm, seed) is a search of its own, judged in the real sandbox by one worker; nothing hidden is measured. `gain` is
the share of the way from the start's fitness to 1 (the best known value; for timed tasks a speed-up without bound) that the
best program went: the median over seeds. Open tasks repeat exactly; timed ones (kind function) vary with the machine.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import tempfile
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import mean, median
from typing import Any

from coevo.evaluation.judge import Judge
from coevo.evaluation.pool import InlinePool
from coevo.evolution.result import Progress
from coevo.evolution.search import search
from coevo.evolution.settings import SearchConfig
from coevo.runs import Budget, Run
from coevo.tasks import load_task

OPEN = (
    *("circle_packing:n=26", "circle_packing:n=29", "heilbronn_triangle", "autocorrelation", "erdos_overlap"),
    *("sorting_network", "bin_packing_weibull", "cap_set"),
)
FUNCTION = ("prime_count", "two_sum_pairs", "edit_distance")

ARMS: dict[str, dict[str, Any]] = {
    "evolve": {},
    "hill_climb": {"strategy": "hill_climb"},
    "best_of_n": {"strategy": "best_of_n"},
    "tune": {"proposers": {"tune": 1}},
    "mutate": {"proposers": {"mutate": 1}},
    "mutate+splice": {"proposers": {"mutate": 1, "splice": 1}},
}


@dataclass(frozen=True)
class Job:
    task: str
    arm: str
    seed: int
    evaluations: int
    folder: Path


class Watch:
    """Counts what became of each operator's candidates, and how the best fitness grew with the evaluations."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.curve: list[tuple[int, float]] = []

    def __call__(self, progress: Progress) -> None:
        candidate, spent = progress.candidate, int(progress.spent["evaluations"])
        edit = candidate.decision.edit.value
        self.counts[f"{edit} steps"] += 1
        if candidate.evaluation is not None and not candidate.duplicate:
            self.counts[f"{edit} new"] += 1
            self.counts[f"{edit} scored"] += candidate.scored
        if progress.improved and progress.best_fitness is not None:
            self.counts[f"{edit} improved"] += 1
            self.curve.append((spent, progress.best_fitness))


def run_job(job: Job) -> dict[str, Any]:
    """One search."""
    task, watch = load_task(job.task), Watch()
    config = SearchConfig.model_validate({**ARMS[job.arm], "seed": job.seed, "verify": False})
    path = job.folder / f"{job.task}-{job.arm}-{job.seed}"
    with (
        Run.create(path, kind="evolve", config={}, budget=Budget(evaluations=job.evaluations)) as run,
        InlinePool(partial(Judge, task)) as pool,
    ):
        search(task, run, pool=pool, config=config, observer=watch)
    start, best = watch.curve[0][1], watch.curve[-1][1]
    return {
        "task": job.task,
        "arm": job.arm,
        "seed": job.seed,
        "start": start,
        "best": best,
        "gain": (best - start) / (1 - start),
        "curve": watch.curve,
        "counts": dict(watch.counts),
    }


def gains_table(rows: list[dict[str, Any]], tasks: list[str], arms: list[str]) -> str:
    """Median gain in percent per task and arm, and the mean over tasks."""
    lines = ["| task | " + " | ".join(arms) + " |", "| --- |" + " --- |" * len(arms)]
    columns: dict[str, list[float]] = {arm: [] for arm in arms}
    for task in tasks:
        for arm in arms:
            columns[arm].append(median(row["gain"] for row in rows if (row["task"], row["arm"]) == (task, arm)))
        lines.append(f"| {task} | " + " | ".join(f"{100 * columns[arm][-1]:.1f}" for arm in arms) + " |")
    lines.append("| mean | " + " | ".join(f"{100 * mean(columns[arm]):.1f}" for arm in arms) + " |")
    return "\n".join(lines)


def operators_table(rows: list[dict[str, Any]], arm: str) -> str:
    """Per operator of one arm, over all its searches: steps, new programs, shares of those that scored and that were a new best."""
    total: Counter[str] = sum((Counter(row["counts"]) for row in rows if row["arm"] == arm), Counter())
    lines = [f"| operator in {arm} | steps | new | scored % | best so far % |", "| --- | --- | --- | --- | --- |"]
    for edit in sorted({key.split()[0] for key in total} - {"start"}):
        steps, new = total[f"{edit} steps"], total[f"{edit} new"]
        shares = [100 * total[f"{edit} {what}"] / max(1, new) for what in ("scored", "improved")]
        lines.append(f"| {edit} | {steps} | {new} | {shares[0]:.1f} | {shares[1]:.1f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--evaluations", type=int, default=300, help="of every search (default 300)")
    parser.add_argument("--seeds", type=int, default=3, help="searches per task and arm (default 3)")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--task", action="append", default=[], help="only this task (may be repeated)")
    parser.add_argument("--arm", action="append", default=[], choices=sorted(ARMS), help="only this arm (repeatable)")
    parser.add_argument("--jobs", type=int, default=2, help="searches at a time (default 2)")
    parser.add_argument("--json", type=Path, help="also write all rows to this file")
    options = parser.parse_args()
    tasks, arms = options.task or [*OPEN, *FUNCTION], options.arm or list(ARMS)
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    with tempfile.TemporaryDirectory(prefix="coevo-bench-") as folder:
        jobs = [Job(t, a, s, options.evaluations, Path(folder)) for t in tasks for a in arms for s in seeds]
        with ProcessPoolExecutor(options.jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
            rows = list(pool.map(run_job, jobs))
    if options.json:
        options.json.write_text(json.dumps(rows), encoding="utf-8")
    print(f"gain in %, median of {options.seeds} seeds, {options.evaluations} evaluations\n")
    print(gains_table(rows, tasks, arms))
    for arm in arms:
        print(f"\n{operators_table(rows, arm)}")


if __name__ == "__main__":
    main()
