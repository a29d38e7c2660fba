"""What no model at all reaches: every open task's start program and baseline, judged in the sandbox.

    python benchmarks/bench_baselines.py [--seconds 20] [--task NAME ...] [--json FILE]

`--seconds` is CPU time given to each baseline. The tables of `coevo evolve` should be read beside these numbers: a search
that does not beat the baseline at equal CPU has shown nothing. Baselines have a fixed seed, but stop by CPU time, so a
slower or busier machine may reach a little less.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from coevo.evaluation.judge import Judge
from coevo.evaluation.types import Evaluation
from coevo.tasks import list_tasks, load_task
from coevo.tasks.types import Kind, Task


def chosen(names: list[str]) -> list[Task]:
    """The tasks named, or every open problem of the library once (a second name of a family's default is left out)."""
    tasks = [load_task(name) for name in names or list_tasks()]
    return list({task.name: task for task in tasks if task.kind is Kind.OPEN and task.baseline is not None}.values())


def row(task: Task, seconds: float) -> dict[str, Any]:
    """Start, baseline and best known value of one task."""
    with Judge(task) as judge:
        start = judge.evaluate(task.start, split="public", seed=1)
        baseline = judge.baseline(seconds, split="public", seed=1)
    best = task.config.best_known
    return {
        "task": task.name,
        "direction": task.config.direction,
        "start": start.score,
        "baseline": baseline.score,
        "best_known": best.value if best else None,
        "fitness": baseline.fitness,
        "cpu_s": round(baseline.cpu_s, 2),
        "note": noted(start) or noted(baseline),
    }


def noted(evaluation: Evaluation) -> str:
    return "" if evaluation.score is not None else f"{evaluation.outcome}: {evaluation.reason}"


def line(found: dict[str, Any]) -> str:
    """One row of a Markdown table."""
    values = ["-" if found[key] is None else f"{found[key]:.10g}" for key in ("start", "baseline", "best_known")]
    share = "-" if found["fitness"] is None else f"{found['fitness']:.6f}"
    return f"| {found['task']} | {found['direction']} | {' | '.join(values)} | {share} | {found['cpu_s']} | {found['note']}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=20.0, help="CPU seconds of every baseline (default 20)")
    parser.add_argument("--task", action="append", default=[], help="only this task (may be repeated)")
    parser.add_argument("--json", type=Path, help="also write the rows to this file")
    options = parser.parse_args()
    print("| task | | start | baseline | best known | baseline's fitness | CPU s |")
    print("| --- | --- | --- | --- | --- | --- | --- |")
    rows = []
    for task in chosen(options.task):
        rows.append(row(task, options.seconds))
        print(line(rows[-1]).rstrip(), flush=True)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
