"""Answers that exist already: a JSONL or Parquet file of programs or replies, one row each.

{"task": "two_sum", "program": "def two_sum(...): ..."}     the text of a program, or {file name: text}
{"task": "two_sum", "response": "Here is ... ```python"}    a model's reply, read as a search reads it
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coevo.errors import ConfigError, UsageError, boundary
from coevo.trajectories.folder import READ_ROWS, parquet

_FORMATS = (".jsonl", ".parquet")


@dataclass(frozen=True)
class Given:
    """One row of the file: a program's text (or texts by file), or a reply."""

    row: int
    """From 1."""
    task: str
    program: str | dict[str, str] | None = None
    response: str = ""


def read_answers(path: str | Path) -> Iterator[Given]:
    """The rows of a file, one by one. Raises `UsageError` that names file and row for what is no answer, `ConfigError` for a
    file of another format."""
    path = Path(path)
    if path.suffix not in _FORMATS:
        raise ConfigError(f"{path}: answers are read from {' or '.join(_FORMATS)} files; rename or convert it")
    rows = _json_rows(path) if path.suffix == ".jsonl" else _parquet_rows(path)
    for number, row in rows:
        yield _given(path, number, row)


def file_digest(path: str | Path) -> str:
    """SHA-256 of a file, in hexadecimal."""
    try:
        with Path(path).open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as e:
        raise UsageError(f"cannot read the answers {path}: {e.strerror or e}") from None


def _given(path: Path, number: int, row: Any) -> Given:
    where = f"{path}, row {number}"
    if not isinstance(row, Mapping):
        raise UsageError(f'{where}: a row is an object like {{"task": ..., "program": ...}}, not {row!r:.100}')
    task, program, response = row.get("task"), row.get("program"), row.get("response")
    if not isinstance(task, str) or not task:
        raise UsageError(f"{where}: 'task' must be the name of a task, not {task!r:.100}")
    if (program is None) == (response is None):
        raise UsageError(
            f"{where}: give either 'program' or 'response', not {'both' if program is not None else 'none'}"
        )
    if response is not None:
        if not isinstance(response, str):
            raise UsageError(f"{where}: 'response' must be text, not {response!r:.100}")
        return Given(number, task, response=response)
    if isinstance(program, Mapping):
        texts = {name: text for name, text in program.items() if text is not None}
        if not texts or not all(isinstance(name, str) and isinstance(text, str) for name, text in texts.items()):
            raise UsageError(f"{where}: 'program' must be text, or texts by file name, not {program!r:.100}")
        return Given(number, task, program=texts)
    if not isinstance(program, str):
        raise UsageError(f"{where}: 'program' must be text, or texts by file name, not {program!r:.100}")
    return Given(number, task, program=program)


def _json_rows(path: Path) -> Iterator[tuple[int, Any]]:
    with boundary(UsageError, f"cannot read the answers {path}"), path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                row = json.loads(line)
            except (ValueError, RecursionError) as e:
                raise UsageError(f"{path}, row {number}: not JSON ({e}); every line is one object") from None
            yield number, row


def _parquet_rows(path: Path) -> Iterator[tuple[int, Any]]:
    number = 0
    pq = parquet()
    with boundary(UsageError, f"cannot read the answers {path}"), pq.ParquetFile(path) as file:
        known = [name for name in ("task", "program", "response") if name in file.schema_arrow.names]
        for batch in file.iter_batches(batch_size=READ_ROWS, columns=known):
            for row in batch.to_pylist():
                number += 1
                yield number, row
