"""Puzzles as tasks: folders like any other, judged in the sandbox like any other."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from coevo.errors import ConfigError, StoreError, boundary
from coevo.mini.families import SEEN, UNSEEN, Part, Puzzle, draw_puzzle, family_named
from coevo.models.weights import cache_folder
from coevo.sandbox.types import Limits
from coevo.streams import stream
from coevo.tasks.loader import load_task
from coevo.tasks.testfile import line_of
from coevo.tasks.types import Kind, Split, Task, Test

ENTRY = "solve"
LIMITS = Limits(cpu_s=2, memory_mb=128)
"""The same for every puzzle, since the prompt names them."""

VERSION = 5
"""Of the puzzles: raised when the same names and seeds give other tasks."""


def mini_tasks(
    families: Sequence[str] = tuple(SEEN),
    *,
    part: Part,
    count: int,
    seed: int = 0,
    folder: Path | None = None,
) -> tuple[Task, ...]:
    """`count` tasks, taken from the families in turn; written to `folder` (or the cache) and loaded from there.

    `part` is train, validation or test: no two parts share a solution. Families of `UNSEEN` never train.
    """
    return tuple(load_task(path) for path in write_tasks(families, part=part, count=count, seed=seed, folder=folder))


def write_tasks(
    families: Sequence[str] = tuple(SEEN),
    *,
    part: Part,
    count: int,
    seed: int = 0,
    folder: Path | None = None,
) -> tuple[Path, ...]:
    """As `mini_tasks`: the task folders, in order. What lies there already is used as it is."""
    chosen = [family_named(name) for name in families]
    if not chosen or count < 1:
        raise ConfigError(f"{count} tasks of {len(chosen)} families make no task; give at least one of each")
    if part == "train" and (held := [f.name for f in chosen if f.name in UNSEEN]):
        raise ConfigError(f"family {held[0]!r} is held out: it has no tasks to train on. Known: {', '.join(SEEN)}")
    folder = folder if folder is not None else default_folder()
    paths = []
    for i in range(count):
        kind = chosen[i % len(chosen)]
        name = f"mini-{kind.name}-{part}-{seed}-{i // len(chosen)}"
        puzzle = draw_puzzle(kind, part, stream(seed, "mini", "task", kind.name, part, i // len(chosen)))
        paths.append(_written(folder / name, name, puzzle))
    return tuple(paths)


def default_folder() -> Path:
    """Where tasks lie unless told otherwise: the cache, one folder per version of the puzzles."""
    return cache_folder() / f"mini-tasks-{VERSION}"


def suite_of(puzzle: Puzzle) -> tuple[Test, ...]:
    """Public tests, then hidden ones, each named by its number within its split."""
    splits: tuple[tuple[Split, Iterable[tuple[int, int]]], ...] = (
        ("public", puzzle.public),
        ("hidden", puzzle.hidden),
    )
    return tuple(
        Test(split, args=args, expected=puzzle.expected(*args), name=f"{'test' if split == 'public' else 'hidden'} {i}")
        for split, inputs in splits
        for i, args in enumerate(inputs, 1)
    )


def _written(path: Path, name: str, puzzle: Puzzle) -> Path:
    """The task's folder, all of it or none: two processes may write it at once."""
    if path.is_dir():
        return path
    with boundary(StoreError, f"cannot write the task folder {path}"):
        path.parent.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(prefix=f".{name}.", dir=path.parent))
        try:
            for file, text in _files(name, puzzle).items():
                (part / file).write_text(text, encoding="utf-8")
            part.chmod(0o755)
            try:
                os.rename(part, path)
            except OSError:
                if not path.is_dir():  # Else another process was faster, with the same content.
                    raise
        finally:
            shutil.rmtree(part, ignore_errors=True)
    return path


def _files(name: str, puzzle: Puzzle) -> dict[str, str]:
    config = {
        "name": name,
        "title": f"Mini puzzle: {puzzle.family.about}",
        "kind": Kind.FUNCTION.value,
        "entry": ENTRY,
        "statement": puzzle.statement,
        "limits": {"cpu_s": LIMITS.cpu_s, "memory_mb": LIMITS.memory_mb},
        "tags": ["mini", f"family:{puzzle.family.name}"],
    }
    return {
        "task.yaml": json.dumps(config, indent=2) + "\n",  # JSON is YAML
        "program.py": puzzle.source(puzzle.start),
        "reference.py": puzzle.source(puzzle.cases),
        "tests.jsonl": "".join(line_of(test, Kind.FUNCTION) for test in suite_of(puzzle)),
    }
