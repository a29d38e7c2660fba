"""JSON lines: one object a line, plain or gzip. Damaged lines are counted and named, never fatal. A row's place is its byte offset (of a gzip file:
in what it unpacks to), so that a text can be read again without reading what is before it."""

from __future__ import annotations

import gzip
import io
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, cast

import numpy as np

from coevo.errors import UsageError
from coevo.evidence.columns import TOLD, Builder, Piece
from coevo.evidence.layouts import Layout, Record
from coevo.evidence.sources import Plan, Span
from coevo.runs.jsontext import loads

SPAN = 16 << 20
"""Bytes of a span."""
SAMPLE = 50
"""Records that the plan looks at."""
BATCH = 2_000
BATCH_BYTES = 8 << 20
MOST_LINE = 256 << 20
"""A longer line is damage."""
_BOM = b"\xef\xbb\xbf"
_NUMBER = re.compile(r"(\d+)")


def natural(path: Path) -> list[Any]:
    """Sorts `2.jsonl` before `10.jsonl`."""
    return [int(part) if part.isdigit() else part for part in _NUMBER.split(path.name)]


PACKED = 4
"""Bytes that a byte of a gzip file unpacks to, about."""


def plan(files: list[Path]) -> Plan:
    """Spans of some JSONL files, and their first records."""
    spans: list[Span] = []
    sample: list[Record] = []
    size = seen = 0
    for path in files:
        packed = path.suffix == ".gz"
        length = path.stat().st_size
        step = int(path.stem) if path.suffix == ".jsonl" and path.stem.isdigit() else None
        cuts = [0] if packed else [0, *range(SPAN, length, SPAN)]
        ends = [-1] if packed else [*cuts[1:], length]
        spans += [Span("jsonl", str(path), a, b, step) for a, b in zip(cuts, ends, strict=True)]
        size += length * (PACKED if packed else 1)
        if len(sample) < SAMPLE and length:
            records, read = _first(path, SAMPLE - len(sample))
            sample += records
            seen += read
    return Plan("jsonl", tuple(spans), tuple(sample), int(size / max(1, seen) * len(sample)), size)


def _first(path: Path, most: int, within: int = 8 << 20) -> tuple[list[Record], int]:
    """The first records of a file, and how many bytes they and what is between them take."""
    found: list[Record] = []
    seen = 0
    with opened(path) as file:
        for _, _, line in _lines(file, 0, -1, path):
            seen += len(line)
            record, _ = parsed(line)
            if record is not None:
                found.append(record)
            if len(found) >= most or seen >= within:
                break
    return found, seen


def opened(path: Path) -> IO[bytes]:
    """For reading, unpacked. Raises `UsageError` where it cannot be opened."""
    try:
        return cast(IO[bytes], gzip.open(path, "rb")) if path.suffix == ".gz" else path.open("rb", buffering=1 << 20)
    except OSError as e:
        raise UsageError(f"cannot read evidence {path}: {e.strerror or e}") from None


def _lines(file: IO[bytes], start: int, stop: int, path: Path) -> Iterator[tuple[int, int, bytes]]:
    """(number, offset, line) of the lines that begin in [start, stop); numbered from 1 within it."""
    at = start
    if start:
        file.seek(start - 1)
        at = start - 1 + len(file.readline())
    number = 0
    try:
        while stop < 0 or at < stop:
            line = file.readline(MOST_LINE)
            if not line:
                return
            number += 1
            yield number, at, line
            at += len(line)
    except (EOFError, zlib.error, gzip.BadGzipFile) as e:
        yield number + 1, at, b"\0" + f"the archive is damaged from here on ({e})".encode()


def parsed(line: bytes) -> tuple[Record | None, str]:
    """The object in a line, or why there is none; neither for a blank line."""
    if line[:1] == b"\0" and line[1:].startswith(b"the archive"):
        return None, line[1:].decode()
    if line.startswith(_BOM):
        line = line[3:]
    try:
        text = line.decode()
        if not text.strip():
            return None, ""
        found = loads(text)
    except UnicodeDecodeError:
        return None, "not UTF-8"
    except RecursionError:
        return None, "nested too deep"
    except ValueError as e:
        return None, f"no JSON ({str(e).split(':')[0][:60]})"
    if not isinstance(found, dict):
        return None, f"a {type(found).__name__}, no object"
    return found, ""


def read(span: Span, layout: Layout, *, texts: bool, share: float, limit: int | None = None) -> Piece:
    """The rows of a span."""
    path = Path(span.path)
    builder = Builder(layout, texts=texts, share=share)
    damaged: list[tuple[int, str]] = []
    broken = lines = size = 0
    batch: list[Record] = []
    places: list[tuple[int, int]] = []

    def flush() -> None:
        if batch:
            builder.add_records(batch, np.array(places, dtype=np.int64).reshape(-1, 2))
            batch.clear()
            places.clear()

    with opened(path) as file:
        for number, offset, line in _lines(file, span.start, span.stop, path):
            lines = number
            record, why = parsed(line)
            rows = None if record is None else unfolded(record, layout, span.step)
            if rows is None:
                if why or record is not None:
                    broken += 1
                    if len(damaged) < TOLD:
                        damaged.append((number, why or "columns of different lengths"))
                continue
            batch += rows
            places += [(offset, i) for i in range(len(rows))]
            size += len(line)
            if limit is not None and builder.rows + len(batch) >= limit:
                keep = limit - builder.rows
                del batch[keep:], places[keep:]
                break
            if len(batch) >= BATCH or size >= BATCH_BYTES:
                flush()
                size = 0
    flush()
    return builder.done(lines=lines, damaged=damaged, broken=broken)


def unfolded(record: Record, layout: Layout, step: int | None) -> list[Record] | None:
    """The rows of a record, in the layout's words."""
    rows = [record] if layout.unfold is None else layout.unfold(record)
    if rows and step is not None and "step" not in record and "global_step" not in record:
        rows = [{**row, "step": step} for row in rows]
    return rows


def fetch(span: Span, layout: Layout, places: list[tuple[int, int]]) -> list[Record]:
    """Rows by their places, in our words."""
    out: list[Record] = []
    with opened(Path(span.path)) as file:
        for offset, inner in places:
            file.seek(offset, io.SEEK_SET)
            record, why = parsed(file.readline(MOST_LINE))
            rows = None if record is None else unfolded(record, layout, span.step)
            if rows is None or inner >= len(rows):
                raise UsageError(
                    f"{span.path} has changed since it was read: byte {offset:,} begins no row ({why}); open it again"
                )
            out.append(layout.row(rows[inner]))
    return out
