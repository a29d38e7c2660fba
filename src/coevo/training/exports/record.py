"""`coevo.json`: what an export was made from and how its replies are judged. And a start state as one line of text."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from coevo import __version__
from coevo.episodes.types import StartState
from coevo.errors import ConfigError, TaskError, UsageError
from coevo.runs.jsontext import dumps
from coevo.tasks.loader import load_task, task_digest
from coevo.tasks.sets import task_ref
from coevo.tasks.types import Task
from coevo.training.own import is_own, own_digests
from coevo.training.settings import Recipe, RewardConfig
from coevo.trajectories.rows import Trajectory, from_row, to_row

FILE = "coevo.json"
SCHEMA = 1


@dataclass(frozen=True)
class Record:
    """Of one export."""

    kind: str
    reward: dict[str, Any]
    """`RewardConfig`, with absolute paths of functions of one's own."""
    sandbox: dict[str, Any]
    max_tokens: int
    """Of one reply: what the reward part `length` counts against."""
    seed: int
    """Of all evaluations."""
    tasks: dict[str, dict[str, str]]
    """By name: `ref` (what loads it) and `digest` (of its config and judge files)."""
    functions: dict[str, str] = field(default_factory=dict)
    """SHA-256 of the files of reward functions of one's own."""
    counts: dict[str, Any] = field(default_factory=dict)
    version: str = __version__
    schema: int = SCHEMA


def record_of(kind: str, recipe: Recipe, tasks: Mapping[str, Task]) -> Record:
    """The record of an export of these tasks under a recipe; counts come later."""
    return Record(
        kind=kind,
        reward=with_absolute_paths(recipe.reward).model_dump(mode="json"),
        sandbox=recipe.sandbox.model_dump(mode="json"),
        max_tokens=recipe.episode.max_tokens,
        seed=recipe.seed,
        tasks={name: {"ref": task_ref(task), "digest": task_digest(task)} for name, task in sorted(tasks.items())},
        functions=own_digests([name for name in recipe.reward.parts if is_own(name)]),
    )


def with_absolute_paths(reward: RewardConfig) -> RewardConfig:
    """The same, so that it can be used from another folder."""
    parts = {(os.path.abspath(name) if is_own(name) else name): weight for name, weight in reward.parts.items()}
    return reward.model_copy(update={"parts": parts})


def write(folder: Path, record: Record) -> None:
    (folder / FILE).write_text(json.dumps(asdict(record), indent=1, sort_keys=True) + "\n", encoding="utf-8")


def read(folder: str | Path) -> Record:
    """The record of an export. Raises `UsageError` for a folder that is none, or was written by a newer coevo."""
    path = Path(folder) / FILE
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        if data["schema"] > SCHEMA:
            raise UsageError(
                f"{path} was written by coevo {data.get('version')}, which is newer; upgrade coevo to score with it"
            )
        return Record(**data)
    except (OSError, ValueError, KeyError, TypeError) as e:
        raise UsageError(f"{path} is no record of an export ({type(e).__name__}: {e}); export again") from None


def load_tasks_of(record: Record) -> dict[str, Task]:
    """The tasks of an export, unchanged since. Raises `TaskError` for one that is gone, `ConfigError` for one that changed."""
    found = {}
    for name, known in record.tasks.items():
        try:
            task = load_task(known["ref"], lazy=True)
        except TaskError as e:
            raise TaskError(f"task {name!r} of this export cannot be loaded from {known['ref']!r}: {e}") from None
        if task_digest(task) != known["digest"]:
            raise ConfigError(f"task {name!r} ({known['ref']}) changed since the export was made; export again")
        found[name] = task
    return found


def state_text(state: StartState) -> str:
    """A start state as JSON: all that judging a reply to it needs, and nothing hidden."""
    return dumps(to_row(Trajectory(state)))


def state_of(text: str) -> StartState:
    """What `state_text` wrote. Raises `UsageError`."""
    try:
        return from_row(json.loads(text)).state
    except (ValueError, KeyError, TypeError, AttributeError) as e:
        raise UsageError(f"this is no start state of an export ({type(e).__name__}: {e})") from None
