"""Where the bytes of evidence lie, and how a part of them is read. A source is cut into spans of a fixed plan; each becomes a `Piece`, here
or in a worker process, and the joined result is the same either way.

    jsonl      files of one JSON object a line, plain or .gz
    parquet    one file, or shards
    runs       the rollouts of run folders
"""

from __future__ import annotations

from typing import Any, NamedTuple


class Span(NamedTuple):
    """A part of a source: bytes `start` to `stop` of a JSONL file, rows of a Parquet file, rollouts of a run by their row ids."""

    kind: str
    path: str
    start: int
    stop: int
    """Past the last; -1: to the end."""
    step: int | None = None
    """Of the whole file, where its name says so and its rows do not."""


class Plan(NamedTuple):
    """What there is to read."""

    kind: str
    spans: tuple[Span, ...]
    sample: tuple[dict[str, Any], ...]
    """A few records, as they are written: what the layout is told by."""
    rows: int
    """About so many."""
    size: int
    """Bytes, about."""
