"""`coevo bench STUDY`: arms at equal budgets on held-out tasks."""

from __future__ import annotations

import shlex
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coevo.cli import output

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from coevo.bench.settings import StudyConfig
    from coevo.bench.study import Outcome


def bench(
    study: Annotated[str, typer.Argument(help="meta, real or library, or a study's YAML file (docs/bench.md).")],
    model: Annotated[
        str | None, typer.Option(help="The untrained policy: any model spec; mini is the model trained here.")
    ] = None,
    data: Annotated[Path | None, typer.Option(help="real: folder with mbpp.jsonl and humaneval.jsonl.")] = None,
    seeds: Annotated[int | None, typer.Option(min=1, help="Repetitions of every arm.")] = None,
    arms: Annotated[str | None, typer.Option(help="Only these, as in search,direct,evolve_search.")] = None,
    out: Annotated[
        Path | None, typer.Option(help="The study's folder; default runs/bench-NAME. One that exists goes on.")
    ] = None,
    results: Annotated[
        Path | None, typer.Option(help="Also write table, JSON, figures and page there, as in docs/results/meta.")
    ] = None,
    minutes: Annotated[
        float | None, typer.Option(min=1e-6, help="Stop after so long; the same command goes on.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A small version, to see that everything runs.")] = False,
    sets: Annotated[
        list[str] | None, typer.Option("--set", help="One setting: recipe.steps=50, suite.limit.ood=16.")
    ] = None,
    force_holdout: Annotated[
        bool, typer.Option("--force-holdout", help="Open test splits again; the results will say so.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the report as JSON and nothing else.")] = False,
) -> None:
    """Compare arms at equal budgets on held-out tasks: untrained strategies and trained policies, several seeds each.

    Says first what difference could be found at all; opens every test split once. Killed or stopped, the same command goes on. Exit code 3
    when the minutes ended it before its end, 4 when splits overlap or a test split was opened before.
    """
    from coevo.bench.studies import study_of
    from coevo.bench.study import run_study

    say = _teller(json=json)
    names = [name.strip() for name in arms.split(",") if name.strip()] if arms else None
    config = study_of(study, quick=quick, model=model, data=data, seeds=seeds, arms=names, sets=sets, notify=say)
    folder = out or Path("runs") / f"bench-{config.name}"
    if not json:
        announce(config, folder)
    outcome = run_study(config, folder, minutes=minutes, force=force_holdout, notify=say)
    command = shlex.join(["coevo", "bench", *_words(study, model, data, seeds, arms, quick, sets)])
    _end(outcome, command, f"{command} --out {shlex.quote(str(folder))}", results, json=json)


def resume(run: Path, *, json: bool) -> None:
    """What `coevo resume` does for a study."""
    from coevo.bench.study import resume_study

    command = f"coevo resume {shlex.quote(str(run))}"
    _end(resume_study(run, notify=_teller(json=json)), command, command, None, json=json)


def _teller(*, json: bool) -> Callable[[str], None]:
    """Progress, a line each, with the seconds since now."""
    begun = time.monotonic()

    def say(line: str) -> None:
        print(f"{time.monotonic() - begun:6.0f} s  {line}", file=sys.stderr if json else sys.stdout, flush=True)

    return say


def _end(outcome: Outcome, command: str, again: str, results: Path | None, *, json: bool) -> None:
    """Write the report, print it, and exit as the outcome says."""
    from coevo.bench.page import write
    from coevo.bench.report import report_of
    from coevo.runs import Run

    with Run.open(outcome.folder, write=False) as run:
        report = report_of(run)
        places = [run.artifacts, *([results] if results else [])]
    files = [write(report, place, command=command)[1] for place in places]
    facts = {
        "study": report["name"],
        "ended": outcome.ended.value,
        "units": f"{outcome.done} of {outcome.units}",
        "page": str(files[-1]),
        "folder": str(outcome.folder),
        "resume": None if report["complete"] else again,
    }
    if json:
        output.print_json({**report, **facts})
    else:
        show(report)
        output.print_facts(facts)
    if outcome.exit_code:
        raise typer.Exit(outcome.exit_code)


def announce(config: StudyConfig, folder: Path) -> None:
    """What will be compared, before anything runs."""
    from coevo.bench.plan import arms_table, plan

    print(f"{config.title or config.name} -> {folder}")
    print(f"model: {config.model}; per search: {config.budget}; {config.seeds} seeds; {len(plan(config))} units")
    output.print_table(*arms_table(config))
    if config.comparisons:
        print(
            "named beforehand: "
            + "; ".join(f"{arm} against {other} on {split}" for arm, other, split in config.comparisons)
        )


def show(report: Mapping[str, Any]) -> None:
    """The tables, for a person: what could be found first."""
    from coevo.bench import page

    print()
    for sentence in page.noise_sentences(report):
        print(sentence)
    for split in dict.fromkeys(row["split"] for row in report["table"]):
        print(f"\n{split}")
        output.print_table(*page.main_table(report, split))
    tables = (
        ("named beforehand", page.difference_table(report, primary=True)),
        ("against the untrained search", page.difference_table(report, primary=False)),
        ("training", page.training_table(report)),
        ("is feedback used, is history?", page.probe_table(report)),
    )
    for title, table in tables:
        if table[1]:
            print(f"\n{title}")
            output.print_table(*table)
    print()
    for sentence in page.verdicts(report):
        print(sentence)
    print(f"holdout: {page.holdout_sentence(report)}")


def _words(
    study: str,
    model: str | None,
    data: Path | None,
    seeds: int | None,
    arms: str | None,
    quick: bool,
    sets: list[str] | None,
) -> list[str]:
    """The command that makes the same study."""
    words = [study]
    for name, value in (("--model", model), ("--data", data), ("--seeds", seeds), ("--arms", arms)):
        words += [name, str(value)] if value is not None else []
    words += ["--quick"] if quick else []
    for one in sets or []:
        words += ["--set", one]
    return words
