"""A run's tables as JSONL or Parquet, for other tools. Streams, so that memory stays flat; the file appears whole or not at all.

JSONL lines are strict JSON; numbers that JSON does not have are written as `coevo.runs.jsontext` says. Parquet has one column
per name of `COLUMNS` and, where rows hold more than that, a column `payload` with the whole row as JSON text.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coevo.errors import ConfigError, StoreError, UsageError, pick
from coevo.runs.jsontext import dumps

if TYPE_CHECKING:
    from coevo.runs.store import Run

Row = dict[str, Any]

_BATCH = 1000
_JUDGED = {
    "split": "string",
    "seed": "string",
    "outcome": "string",
    "fitness": "double",
    "correctness": "double",
    "efficiency": "double",
    "speedup": "double",
    "score": "double",
    "failure": "string",
    "cpu_s": "double",
}
COLUMNS: dict[str, dict[str, str]] = {
    "events": {"id": "int64", "ts": "double", "step": "int64", "kind": "string", "payload": "string"},
    "programs": {"id": "string", "main": "string", "size": "int64", "source": "string", "payload": "string"},
    "evaluations": {"program_id": "string", **_JUDGED, "payload": "string"},
    "completions": {"key": "string", "payload": "string"},
    "rollouts": {
        "step": "int64",
        "split": "string",
        "task": "string",
        "group": "string",
        "branch": "string",
        "reward": "double",
        "truth": "double",
        "payload": "string",
    },
    "candidates": {"program_id": "string", "source": "string", **_JUDGED, "payload": "string"},
}
"""Parquet columns of each table, with their Arrow types. (A seed may have 64 bits without sign: it is text there.)"""


def rows(run: Run, table: str) -> Iterator[Row]:
    """Rows of `events`, `programs`, `evaluations`, `completions`, `rollouts` or `candidates`, as plain data.

    `candidates` are evaluations with the program they are about, in the order of evaluation.
    """
    return pick(table, _TABLES, kind="table")(run)


def export(run: Run, table: str, path: str | Path, *, format: str | None = None) -> int:
    """Write a table to `path` and return the number of rows. `format` (`jsonl`, `parquet`) defaults to the name's ending.

    Raises `ConfigError` for an unknown table or format or where Parquet is not installed, and `StoreError` if the file
    cannot be written (then nothing is at `path` but what was there before).
    """
    path = Path(path)
    name = format or path.suffix.lstrip(".").lower()
    if not name:
        raise UsageError(f"cannot tell the format of {path}: end its name in .jsonl or .parquet, or give --format")
    write = pick(name, _FORMATS, kind="export format")
    content = rows(run, table)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        count = write(content, part, table)
        part.replace(path)
    except OSError as e:
        raise StoreError(f"cannot write {path}: {e.strerror or e}. The run itself is untouched") from e
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)
    return count


def _jsonl(content: Iterator[Row], path: Path, table: str) -> int:
    count = 0
    with path.open("w", encoding="ascii", newline="\n") as file:
        for row in content:
            file.write(dumps(row) + "\n")
            count += 1
    return count


def _parquet(content: Iterator[Row], path: Path, table: str) -> int:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise ConfigError(
            "Parquet export needs the parquet extra: pip install 'coevo[parquet]' (or export JSONL)"
        ) from None
    columns = COLUMNS[table]
    schema = pa.schema([(name, pa.type_for_alias(kind)) for name, kind in columns.items()])
    count = 0
    with pq.ParquetWriter(path, schema, compression="zstd") as writer:
        while batch := list(islice(content, _BATCH)):
            table_rows = [_flat(row, columns) for row in batch]
            writer.write_table(pa.Table.from_pylist(table_rows, schema=schema))
            count += len(batch)
    return count


def _flat(row: Row, columns: dict[str, str]) -> Row:
    """One row of Parquet: named columns of the right type, and the row itself as JSON."""
    flat = {name: _CASTS[kind](row.get(name)) for name, kind in columns.items()}
    if columns.keys() & {"payload"}:
        flat["payload"] = dumps(row["payload"] if set(row) == set(columns) else row)
    return flat


def _text(value: Any) -> str | None:
    # Parquet text is UTF-8, which has no lone surrogates; the payload column keeps them.
    return None if value is None else str(value).encode("utf-8", "replace").decode()


def _number(kind: type[int] | type[float]) -> Callable[[Any], Any]:
    return lambda value: kind(value) if isinstance(value, int | float) else None


_CASTS: dict[str, Callable[[Any], Any]] = {"string": _text, "double": _number(float), "int64": _number(int)}


def _events(run: Run) -> Iterator[Row]:
    return (event._asdict() for event in run.events())


def _programs(run: Run) -> Iterator[Row]:
    for program in run.programs():
        yield {
            "id": program.id,
            "main": program.main,
            "size": program.size,
            "source": program.source,
            "files": dict(program.files),
        }


def _evaluations(run: Run) -> Iterator[Row]:
    for program_id, split, seed, payload in run.evaluations():
        yield {**payload, "program_id": program_id, "split": split, "seed": seed}


def _candidates(run: Run) -> Iterator[Row]:
    for row in _evaluations(run):
        known = run.has_program(row["program_id"])
        program = run.program(row["program_id"]) if known else None
        yield {
            **row,
            "source": program.source if program else None,
            "files": dict(program.files) if program else None,
        }


def _completions(run: Run) -> Iterator[Row]:
    return ({**payload, "key": key} for key, payload in run.completions())


def _rollouts(run: Run) -> Iterator[Row]:
    return run.rollouts()


_TABLES: dict[str, Callable[[Run], Iterator[Row]]] = {
    "events": _events,
    "programs": _programs,
    "evaluations": _evaluations,
    "completions": _completions,
    "rollouts": _rollouts,
    "candidates": _candidates,
}
_FORMATS: dict[str, Callable[[Iterator[Row], Path, str], int]] = {"jsonl": _jsonl, "parquet": _parquet}
TABLES: Iterable[str] = tuple(_TABLES)
