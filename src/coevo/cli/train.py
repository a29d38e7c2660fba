"""`coevo train RECIPE.yaml`: train a policy on rewards from executing what it writes."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coevo.cli import output

if TYPE_CHECKING:
    from coevo.runs import Budget
    from coevo.training.result import Observer, TrainProgress, TrainResult
    from coevo.training.settings import Recipe

LINE_EVERY_S = 10.0
"""Where output is no terminal: a line at most so often (evaluations and the last step always have one)."""


def train(
    recipe: Annotated[Path | None, typer.Argument(help="YAML file of the recipe (see `coevo config recipe`).")] = None,
    base: Annotated[
        str | None, typer.Option(help="Weights to start from: mini, local, a Hugging Face folder, RUN@CHECKPOINT.")
    ] = None,
    task: Annotated[
        list[str] | None, typer.Option(help="Task, or folder of tasks, to train on (repeatable; states.tasks).")
    ] = None,
    sets: Annotated[
        list[str] | None, typer.Option("--set", help="One setting: lr=1e-4, reward.parts={lazy: 1}.")
    ] = None,
    budget: Annotated[
        str | None, typer.Option(help="Bounds, as in minutes=30,evaluations=1e5; also tokens, cpu_minutes.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Run folder to make; default runs/train-N.")] = None,
    branch_from: Annotated[
        str | None,
        typer.Option(help="RUN, RUN@STEP or RUN@best: go on from that checkpoint with --set changes (or a RECIPE)."),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON and nothing else.")] = False,
) -> None:
    """Train a policy: it acts on tasks, what it writes is executed and judged, and what helped becomes likelier.

    Ends with rewards before and after filtering, the truth on hidden tests beside them, the checkpoint, and the command that uses it.
    Exit code 3 when the budget buys no step, 4 when the reward pays planted cheats.
    """
    from coevo.cli.evolve import free_folder
    from coevo.config import read_yaml, with_sets
    from coevo.runs import Budget, parse_budget

    limits = parse_budget(budget) if budget else Budget()
    where = out or free_folder("train")
    given: dict[str, Any] = read_yaml(recipe) if recipe else {}
    if base is not None:
        given["base"] = base
    if task:
        given = with_sets(given, [])
        given["states"] = {**(given.get("states") or {}), "tasks": list(task)}
    say = _quiet if json else _say
    if branch_from is not None:
        _branch(branch_from, given, sets or [], where, limits, json=json, say=say)
        return
    _train(with_sets(given, sets or []), str(recipe or "recipe"), where, limits, json=json, say=say)


def resume(path: Path, *, budget: Budget | None, pool: str | None, json: bool) -> None:
    """Go on with a run of kind "train"; what `coevo resume` does for it."""
    from coevo.training.session import go_on

    with watching(quiet=json) as observer:
        result = go_on(path, budget=budget, pool=pool, observer=observer, notify=_quiet if json else _say)
    finish(path, result, json=json)


def finish(path: Path, result: TrainResult, *, json: bool) -> None:
    """Print how it ended; exit non-zero where it failed."""
    facts = facts_of(path, result)
    if json:
        output.print_json(facts)
    else:
        print()
        output.print_facts(plain_facts(facts))
    if result.exit_code:
        raise typer.Exit(result.exit_code)


def facts_of(path: Path, result: TrainResult) -> dict[str, Any]:
    """What is said of a run at its end."""
    from coevo.runs import Run
    from coevo.runs.status import resume_command
    from coevo.training.history import curve, evaluations
    from coevo.training.verdict import verdict

    with Run.open(path, write=False) as run:
        again = None if result.stopped_by.reached else resume_command(run)
        recipe = run.config.get("recipe", {})
        learns = verdict(curve(run), list(evaluations(run)))
    best = result.best or result.last
    use = f"coevo evolve {_task_to_try(recipe)} --model {shlex.quote(f'local:{best}')}" if best else None
    more = None
    if result.stopped_by.reached and result.last and recipe.get("trainer") == "grpo":
        more = f"coevo train --branch-from {shlex.quote(str(path))} --set steps={2 * result.steps}"
    return {
        "stop": result.message,
        "stopped_by": result.stopped_by.value,
        "steps": result.steps,
        "verdict": learns,
        "metrics": dict(result.metrics),
        "notes": list(result.notes),
        "spent": {name: value for name, value in result.spent.items() if value},
        "checkpoint": str(result.last) if result.last else None,
        "best_checkpoint": str(result.best) if result.best else None,
        "run": str(path),
        "use": use,
        "more": more,
        "resume": again,
    }


def _task_to_try(recipe: Mapping[str, Any]) -> str:
    """One task, as `coevo evolve` takes it: of the evaluation's, which never train, else of those trained on."""
    from coevo.errors import CoevoError
    from coevo.tasks.sets import load_tasks, task_ref

    for section in ("evaluate", "states"):
        for ref in recipe.get(section, {}).get("tasks") or ():
            try:
                return shlex.quote(task_ref(load_tasks([ref])[0]))
            except CoevoError:
                continue
    return "TASK"


def plain_facts(facts: Mapping[str, Any]) -> dict[str, Any]:
    """The same for a person: first and last of each figure on one line."""
    metrics = facts["metrics"]
    shown: dict[str, Any] = {"stop": facts["stop"], "steps": facts["steps"], "skipped": metrics.get("skipped") or None}
    names = {
        "reward_mean": "reward_before_filter",
        "reward_mean_kept": "reward_after_filter",
        "truth": "truth_on_hidden_tests",
        "share_right": "share_right",
        "copy_rate": "copy_rate",
        "entropy": "entropy",
    }
    for name, label in names.items():
        first, last = metrics.get(f"{name}_first"), metrics.get(f"{name}_last")
        if first is not None and last is not None:
            shown[label] = f"{first:.4g} -> {last:.4g}"
    for when in ("first", "last", "best"):
        row = metrics.get(f"eval_{when}")
        if row:
            told = ", ".join(f"{n} {row[n]:.4g}" for n in ("fitness", "gain", "truth", "share_right") if n in row)
            shown[f"evaluation_{when}"] = f"step {row['step']}: {told}"
    for name in ("step_s", "wait_share"):
        if name in metrics:
            shown[name] = round(metrics[name], 4)
    if metrics.get("eval_best") and not facts["best_checkpoint"]:
        shown["evaluation_best"] += " (no checkpoint of it: what training began with was not surpassed)"
    shown["verdict"] = facts["verdict"]
    shown["note"] = "; ".join(facts["notes"]) or None
    shown["spent"] = ", ".join(f"{k} {output.show(round(v, 4))}" for k, v in facts["spent"].items()) or None
    return shown | {name: facts[name] for name in ("checkpoint", "best_checkpoint", "run", "use", "more", "resume")}


@contextmanager
def watching(*, quiet: bool) -> Iterator[Observer | None]:
    """An observer of steps: one line that is written over on a terminal, plain lines elsewhere."""
    if quiet:
        yield None
        return
    terminal = sys.stdout.isatty()
    said = [0.0]

    def observe(progress: TrainProgress) -> None:
        text = line_of(progress)
        now = time.monotonic()
        if terminal:
            end = "\n" if progress.evaluation or progress.step == progress.steps else ""
            print(f"\r\x1b[2K{text}", end=end, flush=True)
        elif progress.evaluation or progress.step == progress.steps or now - said[0] >= LINE_EVERY_S:
            said[0] = now
            print(text, flush=True)

    try:
        yield observe
    finally:
        if terminal:
            print()


def line_of(progress: TrainProgress) -> str:
    """A step in a line."""
    m = progress.metrics
    parts = [f"step {progress.step}/{progress.steps}"]
    if "reward_mean" in m:
        kept = f" (kept {m['reward_mean_kept']:.3f})" if "reward_mean_kept" in m else ""
        parts.append(f"reward {m['reward_mean']:.3f}{kept}")
    for name, label in (("truth", "truth"), ("share_right", "right"), ("copy_rate", "copies"), ("entropy", "entropy")):
        if name in m:
            parts.append(f"{label} {m[name]:.3f}")
    if "wall_s" in m:
        waited = f", {m['wait_s'] / m['wall_s']:.0%} waiting" if m["wall_s"] and "wait_s" in m else ""
        parts.append(f"{m['wall_s']:.1f} s{waited}")
    if progress.skipped:
        parts.append(f"skipped: {progress.skipped}")
    if progress.evaluation:
        e = progress.evaluation
        told = ", ".join(f"{name} {e[name]:.3f}" for name in ("fitness", "gain", "truth", "best_fitness") if name in e)
        parts.append(f"evaluation: {told}")
    return "  ".join(parts)


def _train(
    data: Mapping[str, Any], where: str, out: Path, limits: Budget, *, json: bool, say: Callable[[str], None]
) -> None:
    from coevo.config import parse
    from coevo.mini.base import base_folder
    from coevo.runs.place import require_new
    from coevo.training.opening import ENGINE_TRAINERS
    from coevo.training.session import begin, train
    from coevo.training.settings import Recipe

    recipe = parse(Recipe, data, where=where)
    require_new(out)
    if recipe.trainer in ENGINE_TRAINERS:
        _require_data(recipe)
    weights = base_folder(recipe.base, notify=say) if recipe.trainer != "toy" else None
    say(f"{recipe.trainer}: {recipe.base if recipe.trainer != 'toy' else 'a table of numbers'} -> {out}")
    if recipe.trainer not in ENGINE_TRAINERS:
        with watching(quiet=json) as observer:
            result = train(recipe, out, budget=limits, weights=weights, observer=observer, notify=say)
        finish(out, result, json=json)
        return
    with begin(recipe, out, budget=limits, weights=weights, notify=say) as session:
        for text in session.plan.lines():
            say(text)
        with watching(quiet=json) as observer:
            result = session.go(observer)
    finish(out, result, json=json)


def _require_data(recipe: Recipe) -> None:
    """What can be told before a model is pre-trained for it."""
    from coevo.errors import ConfigError
    from coevo.tasks.sets import load_tasks

    load_tasks(recipe.states.tasks)
    load_tasks(recipe.evaluate.tasks)
    if not (recipe.states.tasks or recipe.states.trajectories or recipe.states.runs):
        raise ConfigError(
            "there is nothing to train on: name tasks with --task (a task, a folder of tasks, library:function), or data in "
            "states.trajectories or states.runs"
        )


def _branch(
    spec: str,
    given: Mapping[str, Any],
    sets: list[str],
    out: Path,
    limits: Budget,
    *,
    json: bool,
    say: Callable[[str], None],
) -> None:
    from coevo.config import parse, with_sets
    from coevo.training.session import branch
    from coevo.training.settings import Recipe

    run, _, which = spec.partition("@") if not Path(spec).exists() else (spec, "", "")
    recipe = parse(Recipe, with_sets(given, sets), where="recipe of the branch") if given else None
    with branch(run, out, checkpoint=which, sets=sets, recipe=recipe, budget=limits, notify=say) as session:
        say(f"branch of {session.parts.parent} -> {out}")
        for change in session.changed:
            say(f"changed: {change}")
        if not session.changed:
            say("changed: nothing; this branch repeats its parent from that step on")
        with watching(quiet=json) as observer:
            result = session.go(observer)
    finish(out, result, json=json)


def _say(text: str) -> None:
    print(text, flush=True)


def _quiet(text: str) -> None:
    pass
