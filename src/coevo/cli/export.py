"""`coevo export`: a run's tables as JSONL or Parquet; a recipe's start states and reward for other trainers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from coevo.cli import output


def export(
    source: Annotated[Path, typer.Argument(help="A run folder, or a recipe (YAML).")],
    what: Annotated[
        str,
        typer.Argument(
            help="Of a run: events, programs, evaluations, completions, rollouts or candidates. Of a recipe: trl, verl or verifiers."
        ),
    ],
    out: Annotated[
        Path, typer.Argument(help="Of a run: the file to write, NAME.jsonl or NAME.parquet. Of a recipe: a new folder.")
    ],
    format: Annotated[str | None, typer.Option(help="Of a run: jsonl or parquet; default by the file's name.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Write one table of a run to a file, or what a recipe trains on (prompts, tasks, the reward as code) to a folder for TRL, verl or
    verifiers. What is written appears whole or not at all."""
    facts = _recipe(source, what, out) if source.is_file() else _table(source, what, out, format)
    if json:
        output.print_json(facts)
    else:
        output.print_facts(facts)


def _table(source: Path, table: str, out: Path, format: str | None) -> dict[str, Any]:
    from coevo.runs import Run
    from coevo.runs.export import export as write

    with Run.open(source, write=False) as opened:
        return {"rows": write(opened, table, out, format=format), "file": out}


def _recipe(source: Path, kind: str, out: Path) -> dict[str, Any]:
    from coevo.config import parse, read_yaml
    from coevo.tasks.sets import load_tasks
    from coevo.training.exports import export as write
    from coevo.training.settings import Recipe
    from coevo.training.sources import fixed_states

    recipe = parse(Recipe, read_yaml(source), where=str(source))
    tasks = {task.name: task for task in load_tasks(recipe.states.tasks)}
    found, known = fixed_states(recipe.states, tasks, seed=recipe.seed)
    states = [state for some in found.values() for state in some]
    done = write(kind, states, known, recipe, out)
    facts: dict[str, Any] = {"rows": done.rows, "folder": done.folder, "files": ", ".join(done.files)}
    return facts | {f"skipped: {reason}": count for reason, count in done.skipped.items()}
