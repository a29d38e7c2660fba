"""`coevo synth TASKS...`: make a data set of trajectories from samples and from recorded searches."""

from __future__ import annotations

import shlex
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from coevo.cli import output

if TYPE_CHECKING:
    from coevo.runs import Budget
    from coevo.trajectories.sampling import Progress
    from coevo.trajectories.settings import SynthConfig
    from coevo.trajectories.synth import Synthesis, SynthResult

LINE_EVERY_S = 5.0
TASKS_SHOWN = 8
"""References of tasks in the command that comes next."""


def synth(
    tasks: Annotated[
        list[str] | None,
        typer.Argument(help="Shipped names, task folders, folders of task folders, library:KIND.", show_default=False),
    ] = None,
    model: Annotated[
        list[str] | None, typer.Option(help="Who answers: openai:NAME@URL, local, scripted:FILE (repeatable).")
    ] = None,
    runs: Annotated[
        list[Path] | None, typer.Option("--from", help="Run folder of a search: its lineages (repeatable).")
    ] = None,
    answers: Annotated[
        list[Path] | None,
        typer.Option(help="JSONL or Parquet file of answers: task, and program or response (repeatable)."),
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder to make; default runs/synth-N.")] = None,
    samples: Annotated[int | None, typer.Option(min=1, help="Answers asked for per task; default 10.")] = None,
    budget: Annotated[
        str | None, typer.Option(help="Bounds, as in evaluations=5000,usd=2; also tokens, minutes, cpu_minutes.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Names every random stream.")] = None,
    against: Annotated[
        list[str] | None,
        typer.Option(help="Data set, search or tasks that must not be trained on (repeatable)."),
    ] = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="Refuse contamination (exit code 4) instead of removing it.")
    ] = False,
    config: Annotated[Path | None, typer.Option(help="YAML file of synthesis settings.")] = None,
    sets: Annotated[
        list[str] | None, typer.Option("--set", help="One setting: mix.right=null, splits.validation=0.1.")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Judging processes; default one per CPU. Does not change results.")
    ] = None,
    pool: Annotated[str | None, typer.Option(help="inline, local:N or ray:N@ADDRESS instead of --workers.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print the result as JSON and nothing else.")] = False,
) -> None:
    """Make start states to train on: answers of a model, executed and arranged as histories, and lineages of searches.

    Ends with a Hugging Face `datasets` folder and its card, the counts, and why what was dropped. A budget that
    ends it early gives a smaller data set. Exit code 1 when it was interrupted before there was one, 3 when the budget buys
    nothing, 4 when --strict found contamination.
    """
    from coevo.runs import parse_budget
    from coevo.trajectories.synth import Setup, begin

    limits = parse_budget(budget or "")
    setup = Setup.of(
        tasks or (),
        answers=answers or (),
        models=tuple(model or ()),
        runs=tuple(map(str, runs or ())),
        against=tuple(against or ()),
        strict=strict,
        settings=_settings(config, sets or [], seed=seed, samples=samples),
        pool=_pool(pool, workers),
        command=shlex.join(["coevo", *sys.argv[1:]]),
    )
    with begin(setup, limits, out or _free()) as synthesis:
        see_through(synthesis, json=json)


def _settings(config: Path | None, sets: list[str], **flags: int | None) -> SynthConfig:
    """Of the file, changed by `--set` and by the flags that were given."""
    from coevo.config import parse, read_yaml, with_sets
    from coevo.trajectories.settings import SynthConfig

    given: dict[str, Any] = with_sets(read_yaml(config) if config else {}, sets)
    given |= {name: value for name, value in flags.items() if value is not None}
    return parse(SynthConfig, given, where=str(config) if config else "synthesis settings")


def _pool(pool: str | None, workers: int | None) -> str:
    from coevo.errors import UsageError

    if workers is not None and pool is not None:
        raise UsageError("--workers and --pool say the same thing; give one of them")
    return pool or (f"local:{workers}" if workers else "local")


def see_through(synthesis: Synthesis, *, json: bool) -> SynthResult:
    """Bring an opened synthesis to its end, print what it came to, and exit non-zero where it ended early."""
    if not json:
        count, searches = synthesis.given, len(synthesis.sources)
        print(f"{count} task{'s' * (count != 1)}, {searches} search{'es' * (searches != 1)} -> {synthesis.run.path}")
    result = synthesis.go(None if json else _lines())
    facts = _facts(result, _task_refs(synthesis))
    if json:
        output.print_json({**facts, "counts": result.counts, "removed": result.removed, "manifest": result.manifest})
    else:
        print()
        rows = [
            (stage, what.replace("_", " "), n) for stage, found in result.counts.items() for what, n in found.items()
        ]
        output.print_table(("stage", "what", "number"), rows)
        for item in result.removed[:10]:
            print(f"removed: {item['what']} of {item['task']} against {item['against']}: {item['why']}")
        if len(result.removed) > 10:
            print(f"removed: ... and {len(result.removed) - 10} more, listed in coevo.json")
        output.print_facts(facts)
    if not result.manifest:
        raise typer.Exit(1)
    return result


def resume(path: Path, *, budget: Budget | None, pool: str | None, json: bool) -> None:
    """Go on with a run of kind "synth"; what `coevo resume` does for it."""
    from coevo.trajectories.synth import resume as opened

    with opened(path, budget=budget, pool=pool) as synthesis:
        see_through(synthesis, json=json)


def _facts(result: SynthResult, tasks: Sequence[str]) -> dict[str, Any]:
    where = shlex.quote(str(result.folder))
    facts: dict[str, Any] = {f"rows_{split}": count for split, count in result.rows.items()}
    facts["folder"] = str(result.folder)
    if result.stop:
        facts |= {"stop": result.stop, "resume": f"coevo resume {where}"}
    if "train" in result.rows:
        sources = result.manifest["splits"]["train"]["sources"]
        mix = ", ".join(f"{source}: {round(1 / len(sources), 2)}" for source in sources)
        named = "".join(f" --task {shlex.quote(ref)}" for ref in tasks[:TASKS_SHOWN])
        named += " --task ..." * (len(tasks) > TASKS_SHOWN)
        facts["next"] = (
            f"coevo train --base local{named} --set states.trajectories=[{where}] --set 'states.mix={{{mix}}}'"
        )
    return facts


def _task_refs(synthesis: Synthesis) -> list[str]:
    """The tasks as they were given, and those of searches alone."""
    from coevo.tasks.sets import task_ref

    return [*synthesis.setup.tasks, *(task_ref(task) for task in synthesis.tasks[synthesis.given :])]


def _lines() -> Progress:
    """A line when something new begins, and now and then while it goes on."""
    said: tuple[str, int, float] = ("", 0, 0.0)

    def progress(what: str, done: int, total: int) -> None:
        nonlocal said
        now = time.monotonic()
        quiet_s = LINE_EVERY_S if done != said[1] else 6 * LINE_EVERY_S
        if what == said[0] and now - said[2] < quiet_s:
            return
        said = (what, done, now)
        print(f"{what}: {done:,}{f' of {total:,}' if total else ''}", flush=True)

    return progress


def _free() -> Path:
    from coevo.cli.evolve import free_folder

    return free_folder("synth")
