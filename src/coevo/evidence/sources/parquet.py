"""Parquet: one file, or shards of a folder. Numbers and words come as whole columns; texts are decoded batch by batch and dropped. A row's place is its
number in its file."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from coevo.errors import ConfigError, UsageError
from coevo.evidence.columns import Builder, Piece, Values
from coevo.evidence.layouts import Layout, Record
from coevo.evidence.sources import Plan, Span
from coevo.evidence.sources.jsonl import unfolded
from coevo.evidence.types import NUMBERS, TEXTS, WORDS, Words

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

BATCH = 4_000
SPAN = 125_000
"""Rows of a span at most."""
_KNOWN = {*NUMBERS, *WORDS, *TEXTS}


@contextmanager
def opened(path: str | Path) -> Iterator[pq.ParquetFile]:
    """A file, open. Raises `ConfigError` where pyarrow is missing, `UsageError` for what is no Parquet or turns out to be damaged while it is read."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise ConfigError(
            "Parquet evidence needs the parquet extra: pip install 'coevo[parquet]' (or give JSONL)"
        ) from None
    try:
        file = pq.ParquetFile(path)
    except (pa.ArrowException, OSError) as e:
        raise UsageError(f"cannot read evidence {path}: it is no whole Parquet file ({str(e)[:200]})") from None
    try:
        with file:
            yield file
    except (pa.ArrowException, OSError) as e:
        said = " ".join(str(e).split())[:200]
        raise UsageError(
            f"cannot read evidence {path}: it is damaged ({said}); write it again, or leave it out"
        ) from None


def plan(files: list[Path]) -> Plan:
    spans: list[Span] = []
    sample: list[Record] = []
    rows = size = 0
    for path in files:
        with opened(path) as file:
            begin = 0
            for group in range(file.metadata.num_row_groups):
                count = file.metadata.row_group(group).num_rows
                size += file.metadata.row_group(group).total_byte_size
                cuts = range(begin, begin + count, SPAN)
                spans += [Span("parquet", str(path), a, min(a + SPAN, begin + count)) for a in cuts]
                begin += count
            rows += begin
            if not sample and begin:
                batch = next(file.iter_batches(batch_size=20))
                sample = batch.to_pylist()
    return Plan("parquet", tuple(spans), tuple(sample), rows, size)


def read(span: Span, layout: Layout, *, texts: bool, share: float, limit: int | None = None) -> Piece:
    """The rows of a span."""
    builder = Builder(layout, texts=texts, share=share)
    stop = span.stop if limit is None else min(span.stop, span.start + limit)
    broken = 0
    damaged: list[tuple[int, str]] = []
    with opened(span.path) as file:
        for begin, batch in _batches(file, _wanted(file, layout, texts), span.start, stop):
            numbers = np.arange(begin, begin + batch.num_rows, dtype=np.int64)
            if layout.unfold is None:
                columns = dict(_flat(zip(batch.schema.names, batch.columns, strict=True), layout))
                builder.add(columns, batch.num_rows, np.stack([numbers, np.zeros_like(numbers)], axis=1))
                continue
            for place, record in zip(numbers.tolist(), batch.to_pylist(), strict=True):
                rows = unfolded(record, layout, None)
                if rows is None:
                    broken += 1
                    damaged += [(place - span.start + 1, "no row in it")][: 5 - len(damaged)]
                else:
                    builder.add_records(rows, np.array([(place, i) for i in range(len(rows))], dtype=np.int64))
    return builder.done(lines=stop - span.start, damaged=damaged, broken=broken)


def _wanted(file: pq.ParquetFile, layout: Layout, texts: bool) -> list[str] | None:
    """Columns to read: all; without the texts where nobody asks for them and tasks are named."""
    if texts or layout.unfold is not None:
        return None
    names = file.schema_arrow.names
    ours = {layout.our_name(name) for name in names}
    needed = {"prompt"} if not ours & {"task", "group"} else set()
    return [name for name in names if layout.our_name(name) not in TEXTS or layout.our_name(name) in needed]


def _by_group(file: pq.ParquetFile, places: list[int]) -> Iterable[list[int]]:
    """Sorted row numbers, those of each row group together: a group is read once."""
    end = 0
    for group in range(file.metadata.num_row_groups):
        start, end = end, end + file.metadata.row_group(group).num_rows
        if part := places[bisect_left(places, start) : bisect_left(places, end)]:
            yield part


def _batches(
    file: pq.ParquetFile, columns: list[str] | None, start: int, stop: int
) -> Iterable[tuple[int, pa.RecordBatch]]:
    """(row number, batch) of rows [start, stop) of a file."""
    begin = 0
    for group in range(file.metadata.num_row_groups):
        count = file.metadata.row_group(group).num_rows
        if begin + count > start and begin < stop:
            at = begin
            for batch in file.iter_batches(batch_size=BATCH, row_groups=[group], columns=columns, use_threads=False):
                low, high = max(start - at, 0), min(stop - at, batch.num_rows)
                if low < high:
                    yield at + low, batch.slice(low, high - low)
                at += batch.num_rows
                if at >= stop:
                    break
        begin += count


def _flat(columns: Iterable[tuple[str, pa.Array]], layout: Layout) -> Iterable[tuple[str, Values]]:
    """Columns as the builder takes them; a struct `parts` as its members."""
    import pyarrow as pa

    for name, column in columns:
        if name == "parts" and pa.types.is_struct(column.type):
            for i, field in enumerate(column.type):
                part = column.field(i) if not column.null_count else column.flatten()[i]
                yield f"parts.{field.name}", _values(part, layout, field.name)
        else:
            yield name, _values(column, layout, name)


def _values(column: pa.Array, layout: Layout, name: str) -> Values:
    import pyarrow as pa

    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.dictionary_decode()
        kind = column.type
    if layout.our_name(name) in TEXTS:
        return column.to_pylist()
    if pa.types.is_null(kind):
        return np.full(len(column), np.nan)
    if pa.types.is_boolean(kind):
        column = column.cast(pa.int8())
    if (
        pa.types.is_boolean(kind)
        or pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_decimal(kind)
    ):
        if layout.our_name(name) in WORDS:
            return [None if v is None else str(v) for v in column.to_pylist()]
        return column.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        coded = column.dictionary_encode()
        codes = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        return Words(codes, tuple(coded.dictionary.to_pylist()))
    return column.to_pylist()


def fetch(span: Span, layout: Layout, places: list[tuple[int, int]]) -> list[Record]:
    """Rows by their places, in our words."""
    wanted: dict[int, dict[str, Any]] = {}
    with opened(span.path) as file:
        for part in _by_group(file, sorted({place for place, _ in places})):
            for low, batch in _batches(file, None, part[0], part[-1] + 1):
                there = part[bisect_left(part, low) : bisect_left(part, low + batch.num_rows)]
                if there:
                    wanted |= zip(there, batch.take([place - low for place in there]).to_pylist(), strict=True)
    out: list[Record] = []
    for place, inner in places:
        rows = unfolded(wanted[place], layout, None) if place in wanted else None
        if rows is None or inner >= len(rows):
            raise UsageError(f"{span.path} has changed since it was read: it has no row {place:,}; open it again")
        out.append(layout.row(rows[inner]))
    return out
