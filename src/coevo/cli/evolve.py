"""`coevo evolve TASK`: search for a better program."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coevo.cli import output

if TYPE_CHECKING:
    from coevo.evolution.session import Session, Setup
    from coevo.runs import Budget
    from coevo.tasks.types import Task

RUNS = Path("runs")


def evolve(
    task: Annotated[
        str, typer.Argument(help="A shipped task's name, a family's member (name:n=29), or a task folder.")
    ],
    model: Annotated[
        list[str] | None,
        typer.Option(
            help="openai:NAME@URL, local, local:FOLDER, scripted:FILE (repeatable). None: free operators alone."
        ),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(
            help="Bounds, as in evaluations=200,minutes=10; also proposals, tokens, usd, cpu_minutes. Default evaluations=200."
        ),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Names every random stream of the search.")] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Judging processes; default one per CPU. Does not change results.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Run folder to make; default runs/TASK-N.")] = None,
    strategy: Annotated[
        str | None, typer.Option(help="evolve, independent, sequential, best_of_n or hill_climb.")
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="YAML file of search settings (see `coevo config search`).")
    ] = None,
    sets: Annotated[
        list[str] | None, typer.Option("--set", help="One search setting: islands=2, selection.name=ucb_tree.")
    ] = None,
    pool: Annotated[str | None, typer.Option(help="inline, local:N or ray:N@ADDRESS instead of --workers.")] = None,
    compare: Annotated[
        bool, typer.Option("--compare", help="All strategies at equal budget, and the no-LLM baseline.")
    ] = False,
    seeds: Annotated[int, typer.Option(min=1, help="With --compare: how many seeds.")] = 3,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON and nothing else.")] = False,
) -> None:
    """Search for a better program, under a judge that the programs cannot reach.

    Ends with the best program, its score in the search beside its score on hidden tests, a picture, and the command that
    goes on. Exit code 1 when the model or the machine failed, 3 when the budget buys nothing.
    """
    from coevo.api import DEFAULT_BUDGET
    from coevo.config import parse, read_yaml, with_sets
    from coevo.errors import UsageError
    from coevo.evolution.session import Setup
    from coevo.evolution.settings import SearchConfig
    from coevo.runs import parse_budget
    from coevo.tasks import load_task

    if workers is not None and pool is not None:
        raise UsageError("--workers and --pool say the same thing; give one of them")
    found = load_task(task)
    given: dict[str, Any] = with_sets(read_yaml(config) if config else {}, sets or [])
    given |= {name: value for name, value in (("seed", seed), ("strategy", strategy)) if value is not None}
    search = parse(SearchConfig, given, where=str(config) if config else "search settings")
    where = pool or (f"local:{workers}" if workers else "local")
    setup = Setup.of(found, models=tuple(model or ()), search=search, pool=where)
    limits = parse_budget(budget or DEFAULT_BUDGET)
    if compare:
        _compare(setup, found, limits, out or free_folder(f"{found.name}-compare"), seeds, json)
        return
    start(setup, found, limits, out or free_folder(found.name), json=json)


def start(setup: Setup, task: Task, budget: Budget, out: Path, *, json: bool) -> dict[str, Any]:
    """Begin a run and see it through; prints, and returns what was found."""
    from coevo.evolution.session import begin, preflight

    with begin(setup, budget, out, task=task) as session:
        if not json:
            print(f"{task.config.title or task.name} -> {out}")
            print(f"budget: {budget}; judging: {setup.pool}")
            if session.models is None:
                print("no model: the free operators (tune, mutate, splice) search alone; --model adds one")
            else:
                for name, planned in preflight(task, session.models, setup.search, budget):
                    print(f"{name}: " + "; ".join(planned.lines()))
        return see_through(session, json=json)


def see_through(session: Session, *, json: bool) -> dict[str, Any]:
    """Run an opened session to its end, write its files, print, and exit non-zero when it failed."""
    from coevo.cli.ending import finish, print_ending
    from coevo.cli.progress import watching
    from coevo.runs.status import resume_command
    from coevo.tasks.types import Kind

    by_score = session.task.kind in (Kind.OPEN, Kind.OPENEVOLVE)
    with watching(session.task.name, by_score=by_score, quiet=json) as observer:
        result = session.go(observer)
    facts = finish(session.run, session.task, result)
    facts["resume"] = resume_command(session.run)
    if json:
        output.print_json(facts)
    else:
        print()
        print_ending(dict(facts))
    if result.exit_code:
        raise typer.Exit(result.exit_code)
    return facts


def free_folder(name: str) -> Path:
    """The first of runs/NAME-1, runs/NAME-2, ... that does not exist."""
    stem = "".join(c if c.isalnum() or c in "-_." else "-" for c in name)
    number = 1
    while (path := RUNS / f"{stem}-{number}").exists():
        number += 1
    return path


def _compare(setup: Setup, task: Task, budget: Budget, out: Path, seeds: int, json: bool) -> None:
    from coevo.evolution.session import comparing

    begun = time.monotonic()
    names = ("evolve", "independent", "sequential", "best_of_n", "hill_climb")

    def announce(arm: str, seed: int) -> None:
        if not json:
            print(f"{time.monotonic() - begun:6.0f} s  {arm}, seed {seed}", flush=True)

    first = setup.search.seed
    found = comparing(setup, task, names, range(first, first + seeds), budget, out, announce)
    if json:
        output.print_json({**found.to_dict(), "folder": out})
        return
    rows = []
    for row in found.rows:
        value = row.score or row.fitness
        rows.append(
            (
                row.arm,
                f"{row.measured} of {row.trials}",
                *(value or (None,) * 3),
                row.evaluations,
                row.tokens,
                round(row.cpu_s, 1),
            )
        )
    headers = ("arm", "measured", "lower quartile", "median", "upper quartile", "evaluations", "tokens", "cpu s")
    print(
        f"\nhidden {'score' if found.rows[0].score else 'fitness'} of the best program, budget {found.budget}, {seeds} seed{'s' if seeds > 1 else ''} each"
    )
    output.print_table(headers, rows)
    output.print_facts({"folder": out})
