"""`coevo tasks new`: a small, complete task of the wished kind, to be edited into another."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from coevo.errors import TaskError, pick
from coevo.tasks.loader import CONFIG, load_task

TEMPLATES = Path(__file__).parent / "templates"
"""One working task folder per kind; each passes `coevo tasks check`."""

_PLACEHOLDER = "name: my_task\n"


def new_task(folder: Path, kind: str) -> Path:
    """Write a working task of `kind` ("function", "stdio" or "open") into `folder`, and return the folder.

    The task is called after the folder. A folder that holds anything is left alone: that is a `TaskError`.
    """
    source = pick(kind, {path.name: path for path in TEMPLATES.iterdir() if path.is_dir()}, kind="kind of task")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise TaskError(f"{folder} exists and is not an empty folder; give a new one")
    config = (source / CONFIG).read_text(encoding="utf-8").replace(_PLACEHOLDER, f"name: {task_name(folder)}\n", 1)
    try:
        shutil.copytree(source, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
        (folder / CONFIG).write_text(config, encoding="utf-8")
    except OSError as e:
        raise TaskError(f"cannot write {folder}: {e.strerror or e}") from None
    load_task(folder)
    return folder


def task_name(folder: Path) -> str:
    """A task's name made from a folder's: lower case, everything unusual an underscore."""
    name = re.sub(r"[^a-z0-9_.-]+", "_", folder.resolve().name.lower()).strip("_.-")
    return name[:80] or "task"
