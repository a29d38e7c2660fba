"""Foreign folders: `initial_program.py` beside an `evaluator.py` with `evaluate(program_path)`, as OpenEvolve runs them.

Such a folder is a task as it stands. Its evaluator imports the program it judges, so judge and candidate share a process, and
a candidate can forge its score; all of it therefore runs inside the sandbox (see `coevo.evaluation.openevolve`), and every
evaluation says so.

Of a `config.yaml` in the folder two settings are read: `prompt.system_message` becomes the statement, and
`evaluator.timeout` (seconds) the limit. The rest configures OpenEvolve's own search.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from coevo.config import parse, read_yaml
from coevo.errors import TaskError
from coevo.programs import Program
from coevo.sandbox.types import Limits, Preload
from coevo.tasks.types import Kind, Task, TaskConfig

INITIAL, EVALUATOR = "initial_program.py", "evaluator.py"

TIMEOUT = 300.0
"""Seconds for one evaluation, where config.yaml does not say: OpenEvolve's own default."""

MAX_FOLDER_BYTES = 8 << 20
"""All files of the folder travel into the sandbox; more than this is refused."""

_SKIPPED = {".md", ".rst", ".png", ".jpg", ".jpeg", ".gif", ".svg", ".pdf", ".ipynb", ".pyc", ".html"}
_SKIPPED_FOLDERS = {"openevolve_output", "__pycache__", "node_modules"}


def load_openevolve(folder: Path) -> Task:
    """The task that such a folder is. Executes nothing. Raises `TaskError` (or `ConfigError`) naming the file."""
    for name in (INITIAL, EVALUATOR):
        if not (folder / name).is_file():
            raise TaskError(f"{folder} has no {name}; an OpenEvolve folder has {INITIAL} and {EVALUATOR}")
    settings = _settings(folder)
    timeout = settings.get("timeout", TIMEOUT)
    config = {
        "name": _name(folder),
        "kind": Kind.OPENEVOLVE,
        "statement": settings.get("statement")
        or "Improve the program. It is scored by running it; a higher score is better.",
        "limits": Limits(cpu_s=timeout, wall_s=timeout, memory_mb=2048, disk_mb=256, processes=16),
        "preload": Preload.NUMPY_SCIPY,
    }
    return Task(
        config=parse(TaskConfig, config, where=str(folder)),
        folder=folder.resolve(),
        start=Program.read(folder / INITIAL),
        source_files=tuple(foreign_files(folder)),
    )


def foreign_files(folder: Path) -> list[str]:
    """Files that travel into the sandbox beside the candidate: all but the initial program, prose, pictures and output."""
    found, size = [], 0
    for path in sorted(folder.rglob("*")):
        parts = path.relative_to(folder).parts
        hidden = any(p.startswith(".") or p in _SKIPPED_FOLDERS for p in parts)
        if hidden or not path.is_file() or path.suffix in _SKIPPED or path == folder / INITIAL:
            continue
        size += path.stat().st_size
        if size > MAX_FOLDER_BYTES:
            raise TaskError(
                f"{folder} holds more than {MAX_FOLDER_BYTES >> 20} MB (up to {path.name}), too much to copy into the sandbox "
                "for every evaluation; move what the evaluator does not need elsewhere"
            )
        found.append(path.relative_to(folder).as_posix())
    return found


def _settings(folder: Path) -> dict[str, Any]:
    path = folder / "config.yaml"
    if not path.is_file():
        return {}
    data = read_yaml(path)
    found: dict[str, Any] = {}
    timeout = _mapping(data.get("evaluator")).get("timeout")
    if timeout is not None:
        if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout <= 86_400:
            raise TaskError(f"{path}: evaluator.timeout is {timeout!r}; write seconds, more than 0 and at most 86400")
        found["timeout"] = float(timeout)
    message = _mapping(data.get("prompt")).get("system_message")
    if isinstance(message, str) and message.strip():
        found["statement"] = message.strip()
    return found


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _name(folder: Path) -> str:
    name = re.sub(r"[^a-z0-9_.-]+", "_", folder.resolve().name.lower()).strip("_.-")[:80]
    return name or "openevolve"
