"""A data set on disk: a folder that `datasets.load_dataset` reads, written and read row group by row group.

data/train-00000-of-00002.parquet   rows (see `coevo.trajectories.rows`)
README.md                           the data card
coevo.json                          the manifest: schema, counts, hashes; written last, so that a folder with it is whole
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from coevo.episodes.types import StartState
from coevo.errors import ConfigError, StoreError, UsageError, boundary
from coevo.evolution.prompt import TaskView, build_messages
from coevo.evolution.types import Edit
from coevo.trajectories.card import card
from coevo.trajectories.rows import SCHEMA, SPLITS, Trajectory, from_row, schema, to_row

MANIFEST = "coevo.json"
DATA = "data"
KIND = "trajectories"

GROUP_CHARS = 16 << 20
"""A row group ends early when its rows have so many characters."""

READ_ROWS = 200
"""Rows that a reader decodes at a time."""


@dataclass
class Counted:
    """What was written of one split."""

    rows: int = 0
    files: list[dict[str, Any]] = field(default_factory=list)
    """name, rows, bytes, sha256 of each file."""
    right: int = 0
    with_next: int = 0
    sources: dict[str, int] = field(default_factory=dict)
    tasks: set[str] = field(default_factory=set)


def write_folder(
    folder: Path,
    rows: Mapping[str, Callable[[], Iterable[Trajectory]]],
    *,
    facts: Callable[[], Mapping[str, Any]],
    group_rows: int = 500,
    shard_rows: int = 50_000,
    observer: Callable[[int], None] | None = None,
) -> dict[str, Any]:
    """Write a data set: per split a function that begins its rows. Returns the manifest.

    Equal rows give equal bytes of data. At most `group_rows` rows are in memory. What was in the folder of an earlier data set is
    replaced when everything is written; a kill before leaves it without a manifest at worst. `facts`, asked for when all rows are
    written, go into manifest and card; `observer` is told the number of rows after each row group. Raises `StoreError` when the disk refuses.
    """
    part = folder / f".{DATA}.part"
    total = 0

    def tell(count: int) -> None:
        nonlocal total
        total += count
        if observer is not None:
            observer(total)

    try:
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir(parents=True)
        counted = {
            split: _write_split(part, split, begin(), group_rows, shard_rows, tell) for split, begin in rows.items()
        }
        counted = {split: count for split, count in counted.items() if count.rows}
        manifest = {"kind": KIND, "schema": SCHEMA, **_splits(counted), **facts()}
        (folder / MANIFEST).unlink(missing_ok=True)
        shutil.rmtree(folder / DATA, ignore_errors=True)
        part.rename(folder / DATA)
        _replace(folder / "README.md", card(manifest))
        _replace(folder / MANIFEST, json.dumps(manifest, indent=1) + "\n")
    except OSError as e:
        raise StoreError(
            f"cannot write the data set {folder}: {e.strerror or e}. Free some space or make it writable, then go on"
        ) from e
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return manifest


def write_states(
    folder: str | Path,
    states: Iterable[StartState],
    *,
    split: str,
    views: Mapping[str, TaskView] | None = None,
    note: str = "",
) -> int:
    """Keep start states as a data set of one split; returns how many. With `views` (by task name) rows carry their prompts and
    statements, so that others can train on them. Raises `UsageError` for a split that is none of `SPLITS`."""
    _check_split(split)

    def rows() -> Iterator[Trajectory]:
        for state in states:
            view = (views or {}).get(state.task)
            messages = prompt_of(view, state) if view else ()
            yield Trajectory(state, split, statement=view.statement if view else "", messages=messages)

    manifest = write_folder(Path(folder), {split: rows}, facts=lambda: {"note": note} if note else {})
    return manifest["splits"].get(split, {"rows": 0})["rows"]


def prompt_of(view: TaskView, state: StartState, max_chars: int = 32_000) -> tuple[Any, ...]:
    """The messages of a state. Raises `UsageError` where they cannot be made that short."""
    return build_messages(view, state.context, style=Edit(state.style), max_chars=max_chars)


def read_manifest(folder: str | Path) -> dict[str, Any]:
    """The manifest of a data set. Raises `UsageError` for a folder that is none, or was written by a newer coevo."""
    path = Path(folder) / MANIFEST
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        kind, version, splits = manifest["kind"], manifest["schema"], manifest["splits"]
        files = [file["name"] for split in splits.values() for file in split["files"]]
    except FileNotFoundError:
        what = "does not exist" if not Path(folder).is_dir() else f"holds no {MANIFEST}: it is no finished data set"
        raise UsageError(f"{folder} {what}. `coevo synth TASKS --model SPEC --out {folder}` makes one") from None
    except OSError as e:
        raise UsageError(f"cannot read {path}: {e.strerror or e}") from None
    except (ValueError, KeyError, TypeError, AttributeError) as e:
        raise UsageError(
            f"{path} is not the manifest of a data set ({type(e).__name__}: {e}); restore it, or make the data set again"
        ) from None
    if kind != KIND or not isinstance(version, int) or not all(isinstance(name, str) for name in files):
        raise UsageError(f"{path} is of kind {kind!r}, schema {version!r}, not the manifest of {KIND}")
    if version > SCHEMA:
        raise UsageError(f"{folder} has schema {version}, and this coevo reads up to {SCHEMA}; update coevo")
    return manifest


def read_trajectories(folder: str | Path, *, split: str) -> Iterator[Trajectory]:
    """The rows of a split, in their order, decoded `READ_ROWS` at a time.

    Columns that an older coevo did not write read as empty. Raises `UsageError` for a folder or split that is not
    there, and for files that are damaged: it names file and row.
    """
    manifest = read_manifest(folder)
    _check_split(split)
    if split not in manifest["splits"]:
        have = ", ".join(manifest["splits"]) or "none"
        raise UsageError(f"{folder} has no split {split!r}; it has {have}")
    return _read(Path(folder), manifest["splits"][split]["files"])


def read_states(folder: str | Path, *, split: str) -> Iterator[StartState]:
    """The start states of a split, in their order; bounded memory. Raises as `read_trajectories`."""
    return (trajectory.state for trajectory in read_trajectories(folder, split=split))


def _read(folder: Path, files: Iterable[Mapping[str, Any]]) -> Iterator[Trajectory]:
    pq = parquet()
    for file in files:
        path = folder / DATA / Path(file["name"]).name
        number = 0
        with boundary(UsageError, f"{path} cannot be read; restore it, or make the data set again"):
            if not path.is_file():
                raise UsageError(f"{path} is missing; restore it, or make the data set again")
            opened = pq.ParquetFile(path)
        with opened:
            empty = dict.fromkeys(schema().names)
            batches = opened.iter_batches(batch_size=READ_ROWS)
            while True:
                with boundary(
                    UsageError, f"{path}, after row {number}: damaged; restore it, or make the data set again"
                ):
                    batch = next(batches, None)
                    rows = batch.to_pylist() if batch is not None else None
                if rows is None:
                    break
                for row in rows:
                    number += 1
                    with boundary(UsageError, f"{path}, row {number}: not a trajectory"):
                        trajectory = from_row(_completed({**empty, **row}))
                    yield trajectory
        if number != file.get("rows", number):
            raise UsageError(
                f"{path} holds {number} rows and {MANIFEST} says {file['rows']}: rows were lost, or the file is another one; restore it, or "
                "make the data set again"
            )


def _completed(row: dict[str, Any]) -> dict[str, Any]:
    """Absent texts and lists as empty ones: a folder may be older than a column."""
    for name in ("rejected", "statement", "task_digest", "outcome", "origin", "feedback"):
        row[name] = row[name] or ""
    for name in ("history", "inspirations", "known", "prompt"):
        row[name] = row[name] or []
    row["depth"], row["seed"] = row["depth"] or 0, row["seed"] or 0
    return row


def _write_split(
    part: Path, split: str, rows: Iterable[Trajectory], group_rows: int, shard_rows: int, tell: Callable[[int], None]
) -> Counted:
    """Files of one split, renamed when their number is known."""
    counted = Counted()
    shard = _Shards(part, split, shard_rows)
    group: list[dict[str, Any]] = []
    chars = 0
    try:
        for trajectory in rows:
            row = to_row(trajectory)
            group.append(row)
            _count(counted, row)
            chars += _size(row)
            if len(group) >= group_rows or chars >= GROUP_CHARS or shard.full(len(group)):
                shard.write(group)
                tell(len(group))
                group, chars = [], 0
        if group:
            shard.write(group)
            tell(len(group))
    finally:
        shard.close()
    for index, (path, count) in enumerate(shard.done):
        target = part / f"{split}-{index:05d}-of-{len(shard.done):05d}.parquet"
        path.rename(target)
        counted.files.append(
            {"name": target.name, "rows": count, "bytes": target.stat().st_size, "sha256": _sha256(target)}
        )
    return counted


class _Shards:
    """Parquet files of one split, of at most so many rows each, one open at a time."""

    def __init__(self, part: Path, split: str, shard_rows: int) -> None:
        self._part, self._split, self._shard_rows = part, split, shard_rows
        self._writer: Any = None
        self._schema = schema()
        self.done: list[tuple[Path, int]] = []

    def full(self, more: int) -> bool:
        """Whether the open file has no room beyond `more` rows."""
        held = self.done[-1][1] if self._writer is not None else 0
        return held + more >= self._shard_rows

    def write(self, group: list[dict[str, Any]]) -> None:
        import pyarrow as pa

        if self._writer is None:
            path = self._part / f"{self._split}-{len(self.done)}.part"
            self._writer = parquet().ParquetWriter(path, self._schema, compression="zstd")
            self.done.append((path, 0))
        self._writer.write_table(pa.Table.from_pylist(group, schema=self._schema))
        path, count = self.done[-1]
        self.done[-1] = path, count + len(group)
        if self.full(0):
            self.close()

    def close(self) -> None:
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()


def parquet() -> Any:
    """The module `pyarrow.parquet`; `ConfigError` where it is not installed."""
    try:
        import pyarrow.parquet
    except ImportError:
        raise ConfigError("trajectories need pyarrow: pip install 'coevo[parquet]'") from None
    return pyarrow.parquet


def _count(counted: Counted, row: Mapping[str, Any]) -> None:
    counted.rows += 1
    counted.right += row["correctness"] == 1
    counted.with_next += row["next"] is not None
    counted.sources[row["source"]] = counted.sources.get(row["source"], 0) + 1
    counted.tasks.add(row["task"])


def _size(row: Mapping[str, Any]) -> int:
    """About the characters of a row."""
    attempts = [row, *row["history"], *row["inspirations"], *([row["next"]] if row["next"] else [])]
    programs = sum(len(file["text"]) for attempt in attempts for file in attempt["files"])
    return programs + sum(len(m["content"]) for m in row["prompt"]) + len(row["statement"]) + 16 * len(row["known"])


def _splits(counted: Mapping[str, Counted]) -> dict[str, Any]:
    return {
        "splits": {
            split: {
                "rows": c.rows,
                "tasks": len(c.tasks),
                "right": c.right,
                "with_next": c.with_next,
                "sources": dict(sorted(c.sources.items())),
                "files": c.files,
            }
            for split, c in counted.items()
        }
    }


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _replace(path: Path, text: str) -> None:
    new = path.with_name(f".{path.name}.{os.getpid()}")
    new.write_text(text, encoding="utf-8")
    new.replace(path)


def _check_split(split: str) -> None:
    if split not in SPLITS:
        raise UsageError(f"unknown split {split!r}; the splits are {', '.join(SPLITS)}")
