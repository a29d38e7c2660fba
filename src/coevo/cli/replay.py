"""`coevo replay RUN`: the same search again from its recorded replies, without a model."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from coevo.cli import output


def replay(
    run: Annotated[Path, typer.Argument(help="A run folder.")],
    out: Annotated[Path | None, typer.Option(help="Run folder to make; default runs/NAME-replay-N.")] = None,
    workers: Annotated[int | None, typer.Option(min=1, help="Judging processes. Does not change results.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON and nothing else.")] = False,
) -> None:
    """Search again with the replies that a run recorded, and compare the digests of the steps of both runs.

    Ends with 4 when they differ (they may, where fitness is timed).
    """
    from coevo.cli.ending import facts_of
    from coevo.cli.evolve import free_folder
    from coevo.cli.progress import watching
    from coevo.evolution.session import STEPS, replaying

    target = out or free_folder(f"{run.name}-replay")
    with replaying(run, target, pool=f"local:{workers}" if workers else None) as (session, digest):
        with watching(
            f"replay of {run}", by_score=session.task.kind.value in ("open", "openevolve"), quiet=json
        ) as observer:
            result = session.go(observer)
        again = session.run.digest(kinds=STEPS)
        facts = {**facts_of(session.run, session.task, result), "run": target, "digest": again, "same": again == digest}
    facts.pop("spent")
    if json:
        output.print_json(facts)
    else:
        output.print_facts(facts)
    if again != digest:
        raise typer.Exit(4)
