"""`coevo export RUN TABLE OUT`: a run's tables as JSONL or Parquet."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from coevo.cli import output


def export(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    table: Annotated[str, typer.Argument(help="events, programs, evaluations, completions, rollouts or candidates.")],
    out: Annotated[Path, typer.Argument(help="File to write: NAME.jsonl or NAME.parquet.")],
    format: Annotated[str | None, typer.Option(help="jsonl or parquet; default by the file's name.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Write one table of a run to a file that other tools read. The file appears whole or not at all."""
    from coevo.runs import Run
    from coevo.runs.export import export as write

    with Run.open(run, write=False) as opened:
        rows = write(opened, table, out, format=format)
    facts = {"rows": rows, "file": out}
    if json:
        output.print_json(facts)
    else:
        output.print_facts(facts)
