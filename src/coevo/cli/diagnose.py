"""`coevo diagnose`: what rollouts of any trainer say about a run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from coevo.cli import output

if TYPE_CHECKING:
    from coevo.diagnostics.sources import Diagnosed


def diagnose(
    source: Annotated[
        Path,
        typer.Argument(help="A run folder, or a file or folder of rollouts: JSONL, Parquet; coevo, TRL, verl, ROLL."),
    ],
    baseline: Annotated[Path | None, typer.Option("--baseline", help="Evidence of the run it came from.")] = None,
    branch: Annotated[
        str | None, typer.Option("--branch", help="Only this branch (run/branch, where there are several runs).")
    ] = None,
    baseline_branch: Annotated[
        str | None, typer.Option("--baseline-branch", help="Only this branch of the baseline.")
    ] = None,
    together: Annotated[bool, typer.Option("--together", help="Take all branches for one run.")] = False,
    split: Annotated[
        str | None,
        typer.Option(
            "--split", help="Take rows of this split for those that training saw (default: train, if there is one)."
        ),
    ] = None,
    only: Annotated[list[str] | None, typer.Option("--only", help="Ask this diagnostic only. Repeatable.")] = None,
    rows: Annotated[int, typer.Option("--rows", min=0, max=5, help="Rollouts shown behind each finding.")] = 1,
    all: Annotated[
        bool,
        typer.Option("--all", help="Of what cannot be known, say each reason, not only which columns are missing."),
    ] = False,
    format: Annotated[str, typer.Option("--format", help="Whose layout it is; auto tells it by the columns.")] = "auto",
    fail_on: Annotated[
        str | None, typer.Option("--fail-on", help="End with 4 if something is: critical, or warn.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the diagnosis as JSON.")] = False,
) -> None:
    """Read rollouts and say whether the run learns, whether that is real, what is wrong, and what the evidence cannot tell."""
    from coevo.diagnostics.sources import diagnose_source
    from coevo.errors import UsageError

    if fail_on not in (None, "critical", "warn"):
        raise UsageError(f"--fail-on takes critical or warn, not {fail_on!r}")
    found = diagnose_source(
        source,
        baseline,
        branch=branch,
        baseline_branch=baseline_branch,
        together=together,
        split=split,
        only=tuple(only or ()),
        format=format,
    )
    if json:
        _print_json(found)
    else:
        _print_pages(found, rows, all)
    if fail_on is not None:
        _fail(found, fail_on)


def _print_json(found: list[Diagnosed]) -> None:
    from coevo.diagnostics.answer import answer

    reports = {one.name: {**one.diagnosis.to_dict(), "answer": answer(one.diagnosis)} for one in found}
    output.print_json(next(iter(reports.values())) if len(found) == 1 else {"schema": 1, "branches": reports})


def _print_pages(found: list[Diagnosed], rows: int, all: bool) -> None:
    from coevo.diagnostics.page import lines_of

    write = _writer()
    for i, one in enumerate(found):
        for line in lines_of(one, rows=rows, first=i == 0, all=all):
            write(line)
    levels = [f.level.value for one in found for f in one.diagnosis.findings]
    output.print_facts(
        {
            "rollouts": sum(one.frame.rows for one in found),
            **({"branches": len(found)} if len(found) > 1 else {}),
            "critical": levels.count("critical"),
            "warn": levels.count("warn"),
            "ok": levels.count("ok"),
            "unknown": levels.count("unknown"),
        }
    )


def _writer():
    """Folded and coloured on a terminal, plain lines elsewhere."""
    if not sys.stdout.isatty():
        return lambda line: print(f"{line.indent}{line.text}" if line.text else "")
    from rich.console import Console
    from rich.padding import Padding
    from rich.text import Text

    console = Console(highlight=False)
    return lambda line: console.print(Padding(Text(line.text, style=line.style), (0, 0, 0, len(line.indent))))


def _fail(found: list[Diagnosed], level: str) -> None:
    from coevo.diagnostics.types import Level
    from coevo.errors import GateBlocked

    bad = (Level.CRITICAL,) if level == "critical" else (Level.CRITICAL, Level.WARN)
    ids = list(dict.fromkeys(f.diagnostic for one in found for f in one.diagnosis.at(*bad)))
    if ids:
        raise GateBlocked(f"{', '.join(ids)}: {level} or worse")
