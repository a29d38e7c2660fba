"""`coevo status [RUN]`: what a run is doing, what it has found, what it may still spend."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated, Any

import typer

from coevo.cli import output


def status(
    run: Annotated[Path | None, typer.Argument(help="A run folder; none means the newest under runs/.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """State, best so far, budget spent and left, and the command that goes on. Safe while the run is running."""
    from coevo.runs import Run
    from coevo.runs.status import status_of
    from coevo.runs.types import State

    path = run or newest()
    with Run.open(path, write=False) as opened:
        facts = status_of(opened)
        if opened.kind == "evolve":
            facts["search"] = _search(opened)
        elif opened.kind == "train":
            facts["training"] = _training(opened)
            if facts["state"] == State.FINISHED:
                facts["resume"] = None
        elif opened.kind == "lab":
            from coevo.cli.lab import status_of as lab_status

            facts["lab"] = lab_status(path)
            if facts["state"] == State.FINISHED:
                facts["resume"] = None
    if json:
        output.print_json(facts)
        return
    rows = [
        (n, b["limit"] if b["limit"] is not None else "-", _round(b["spent"]), _round(b["remaining"]))
        for n, b in facts["budget"].items()
    ]
    output.print_table(("budget", "limit", "spent", "remaining"), rows)
    ago = max(0.0, time.time() - facts["last_activity"])
    output.print_facts(
        {
            "run": facts["path"],
            "state": facts["state"] + (f" ({facts['by']})" if facts["by"] else ""),
            "last_activity": f"{ago:.0f} s ago",
            **facts.get("search", {}),
            **facts.get("training", {}),
            **{name: value for name, value in facts.get("lab", {}).items() if name not in ("branches", "lab")},
            "resume": facts["resume"],
        }
    )


def newest() -> Path:
    """The run under runs/ that was written to last."""
    from coevo.cli.evolve import RUNS
    from coevo.errors import UsageError

    found = sorted(RUNS.glob("*/run.db"), key=lambda p: p.stat().st_mtime)
    if not found:
        raise UsageError(f"no run under {RUNS}/; name a run folder, or make one with `coevo evolve TASK`")
    return found[-1].parent


def _round(value: Any) -> Any:
    return round(value, 4) if isinstance(value, float) else value


def _training(run: Any) -> dict[str, Any]:
    from coevo.training.checkpoints import found
    from coevo.training.history import curve, evaluations, past_of, summary
    from coevo.training.verdict import verdict

    recipe, figures = run.config.get("recipe", {}), summary(run)
    facts: dict[str, Any] = {"trainer": recipe.get("trainer"), "steps": f"{past_of(run).made} of {recipe.get('steps')}"}
    for name in ("reward_mean", "truth", "copy_rate", "entropy"):
        first, last = figures.get(f"{name}_first"), figures.get(f"{name}_last")
        if first is not None and last is not None:
            facts[name] = f"{first:.4g} -> {last:.4g}"
    if best := figures.get("eval_best"):
        facts["best_evaluation"] = f"step {best['step']}: fitness {best['fitness']:.4g}"
    facts["verdict"] = verdict(curve(run), list(evaluations(run)))
    facts["checkpoint"] = next((str(one.path) for one in reversed(found(run.path))), None)
    return facts


def _search(run: Any) -> dict[str, Any]:
    from coevo.cli.ending import candidates

    steps, scored, best = 0, 0, None
    for candidate in candidates(run):
        steps += 1
        summary = candidate.evaluation
        if summary is None or not candidate.scored or summary.fitness is None:
            continue
        scored += 1
        if best is None or summary.fitness > best[0]:
            best = (summary.fitness, summary.score, candidate.step)
    facts: dict[str, Any] = {"task": run.config["task"]["ref"], "steps": steps, "scored": scored}
    if best is not None:
        facts |= {"best_fitness": best[0], "best_score": best[1], "best_step": best[2]}
    for event in run.events(kinds=("verified",)):
        facts["verified_fitness"] = event.payload["best_hidden"].get("fitness")
    return facts
