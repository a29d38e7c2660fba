"""`coevo resume RUN`: go on where a run stopped."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def resume(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    budget: Annotated[str | None, typer.Option(help="New bounds of the whole run; what was spent stays spent.")] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Judging processes. Does not change results.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON and nothing else.")] = False,
) -> None:
    """Go on with a run: stored replies and evaluations are used again, only what was in flight is done again."""
    from coevo.cli.evolve import see_through
    from coevo.evolution.session import resume as opened
    from coevo.runs import Run, parse_budget

    limits = parse_budget(budget) if budget else None
    with Run.open(run, write=False) as held:
        kind = held.kind
    if kind == "train":
        from coevo.cli.train import resume as train_on

        train_on(run, budget=limits, pool=f"local:{workers}" if workers else None, json=json)
        return
    if kind == "synth":
        from coevo.cli.synth import resume as synthesize_on

        synthesize_on(run, budget=limits, pool=f"local:{workers}" if workers else None, json=json)
        return
    if kind == "bench":
        from coevo.cli.bench import resume as bench_on

        bench_on(run, json=json)
        return
    if kind == "lab":
        from coevo.cli.lab import bounds_of, go_on

        go_on(run, budget=bounds_of(limits) if limits else None, json=json)
        return
    with opened(run, budget=limits, pool=f"local:{workers}" if workers else None) as session:
        if not json:
            done = session.run.counts()["programs"]
            print(f"{run}: {done} programs so far; budget: {session.run.ledger.budget or 'unlimited'}")
        see_through(session, json=json)
