"""What else must not be trained on (`--against`): a data set's tasks, a search's task, or tasks by their references."""

from __future__ import annotations

from pathlib import Path

from coevo.errors import UsageError
from coevo.evolution.session import KIND as SEARCH
from coevo.evolution.session import Setup as Search
from coevo.runs import Run
from coevo.tasks.sets import load_tasks
from coevo.tasks.types import Task
from coevo.trajectories.contamination import Held
from coevo.trajectories.folder import MANIFEST, read_manifest, read_trajectories


def hold_out(held: Held, ref: str) -> None:
    """Add what `ref` names. A data set gives its statements and all its right programs (with those that followed), a search its
    task and its right programs, tasks their statements and references."""
    path = Path(ref).expanduser()
    if (path / MANIFEST).is_file():
        _data_set(held, path)
    elif (path / "run.db").is_file():
        _search(held, path)
    else:
        for task in load_tasks([ref]):
            _task(held, task, ref)


def _task(held: Held, task: Task, where: str) -> None:
    name = task.name if where == task.name else f"{task.name} ({where})"
    held.add(name, task.config.statement, [task.reference] if task.reference else [])


def _data_set(held: Held, path: Path) -> None:
    for split in read_manifest(path)["splits"]:
        for row in read_trajectories(path, split=split):
            attempts = (row.state.context.parent, *([row.next] if row.next else []))
            right = [attempt.program for attempt in attempts if attempt.correctness == 1]
            held.add(f"{row.state.task} ({path}, {split})", row.statement, right)


def _search(held: Held, path: Path) -> None:
    with Run.open(path, write=False) as run:
        if run.kind != SEARCH:
            raise UsageError(f"--against {path}: a run of kind {run.kind!r}; give a search, a data set, or tasks")
        task = Search.read(run).load()
        name = f"{task.name} ({path})"
        held.add(name, task.config.statement, [task.reference] if task.reference else [])
        for event in run.events(kinds=("candidate",)):
            evaluation = event.payload.get("evaluation") or {}
            if evaluation.get("correctness") == 1:
                held.add(name, task.config.statement, [run.program(event.payload["program"])])
