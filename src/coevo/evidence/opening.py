"""`open_evidence`: rollouts of any trainer as a `Frame`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from coevo.errors import UsageError
from coevo.evidence import crew, sampling
from coevo.evidence.columns import TOLD, Piece, joined
from coevo.evidence.layouts import Layout, Record
from coevo.evidence.readers import known_formats, layout_of
from coevo.evidence.sources import Plan, Span, jsonl, parquet, runs
from coevo.evidence.types import Frame

SOURCES: dict[str, ModuleType] = {"jsonl": jsonl, "parquet": parquet, "runs": runs}


def open_evidence(
    source: str | Path,
    *,
    format: str = "auto",
    texts: bool = True,
    limit: int | None = None,
    workers: int | None = None,
) -> Frame:
    """The rollouts of a run folder, of a JSONL file (plain or .gz), of a Parquet file, or of a folder of either.

    `format` is a name of `coevo.evidence.readers.LAYOUTS`; "auto" tells it by the columns. `texts`: whether prompts and responses are looked at
    (columns `text.NAME`). `limit`: the first so many rows. `workers`: processes that read; None: one a core for a large source, none otherwise;
    the frame is the same for any number.

    Damaged lines are counted and named in `notes`. Raises `UsageError` where there is nothing to read: it says what was found and what is known.
    """
    path = Path(source)
    plan = _plan(path)
    if not plan.sample:
        raise UsageError(_nothing(path, plan))
    columns = {name: None for record in plan.sample for name in record}
    layout = layout_of(list(columns), format=format, source=str(path))
    rows = plan.rows * _rows_in(plan, layout)
    share = sampling.share_of(rows if limit is None else min(limit, rows))
    pieces = _pieces(plan, layout, texts=texts, share=share, limit=limit, workers=workers)
    if not any(piece.rows for piece in pieces):
        raise UsageError(_nothing(path, plan))
    return _frame(path, plan.spans, pieces, layout, share if texts else 1.0)


def _plan(path: Path) -> Plan:
    if not path.exists():
        raise UsageError(
            f"no evidence at {path}: give a run folder, a .jsonl, .jsonl.gz or .parquet file, or a folder of them"
        )
    if path.is_dir():
        return _plan_folder(path)
    if not path.is_file():
        raise UsageError(
            f"evidence {path} is a pipe or a device, and rows are read more than once: write it to a .jsonl file first"
        )
    name = path.name.lower()
    if not path.stat().st_size:
        raise UsageError(
            f"evidence {path} is empty; write one JSON object per rollout (schema 1), or give another file"
        )
    with path.open("rb") as file:
        begin = file.read(4)
    if begin == b"PAR1" or name.endswith((".parquet", ".pq")):
        return parquet.plan([path])
    if begin[:2] == b"\x1f\x8b" and not name.endswith(".gz"):
        raise UsageError(f"evidence {path} is a gzip archive: name it .jsonl.gz")
    if name.endswith(".db"):
        return runs.plan([path.parent])
    return jsonl.plan([path])


def _plan_folder(path: Path) -> Plan:
    if folders := runs.runs_in(path):
        return runs.plan(folders)
    for folder in (path, path / "completions"):
        shards, lines = _files(folder, "*.parquet", "*.pq"), _files(folder, "*.jsonl", "*.jsonl.gz")
        if shards and lines:
            raise UsageError(
                f"{folder} holds both Parquet ({shards[0].name}) and JSONL ({lines[0].name}); name one file, or keep one kind"
            )
        if shards:
            return parquet.plan(shards)
        if lines:
            return jsonl.plan(lines)
    inside = ", ".join(sorted(p.name for p in path.iterdir())[:8]) or "nothing"
    raise UsageError(
        f"folder {path} holds no evidence (it has {inside}): give a run folder, or files .jsonl, .jsonl.gz or .parquet"
    )


def _files(folder: Path, *patterns: str) -> list[Path]:
    """In natural order; a pipe of such a name would be waited on for ever."""
    return sorted((p for pattern in patterns for p in folder.glob(pattern) if p.is_file()), key=jsonl.natural)


def _rows_in(plan: Plan, layout: Layout) -> int:
    """Rows of a record, about: some layouts write a whole step in one."""
    if layout.unfold is None:
        return 1
    found = [len(rows) for record in plan.sample if (rows := layout.unfold(record)) is not None]
    return max(1, sum(found) // max(1, len(found)))


def _nothing(path: Path, plan: Plan) -> str:
    if plan.kind == "runs":
        return f"run {path} holds no rollouts yet"
    if plan.kind == "parquet":
        return f"evidence {path} holds no rows"
    try:
        with jsonl.opened(Path(plan.spans[0].path)) as file:
            lead = file.read(200)
    except OSError as e:
        return f"no line of {path} is a rollout: it cannot be unpacked ({e})"
    looks = f"begins with {lead[:40]!r}"
    if not lead.strip():
        looks = "is blank"
    elif lead.lstrip()[:1] == b"[":
        looks = "is a JSON array: write one object a line"
    return f"no line of {path} is a rollout (it {looks}). Known are {known_formats()}"


def _pieces(
    plan: Plan, layout: Layout, *, texts: bool, share: float, limit: int | None, workers: int | None
) -> list[Piece]:
    if limit is not None:
        if limit < 1:
            raise UsageError(f"limit must be at least 1, not {limit}")
        pieces: list[Piece] = []
        left = limit
        for span in plan.spans:
            pieces.append(SOURCES[span.kind].read(span, layout, texts=texts, share=share, limit=left))
            left -= pieces[-1].rows
            if left <= 0:
                break
        return pieces
    count = crew.size_for(plan, texts) if workers is None else workers
    if count > 1 and len(plan.spans) > 1:
        return crew.read(plan.spans, layout.name, texts=texts, share=share, workers=count)
    return [SOURCES[span.kind].read(span, layout, texts=texts, share=share) for span in plan.spans]


def _frame(path: Path, spans: Sequence[Span], pieces: list[Piece], layout: Layout, share: float) -> Frame:
    notes = [*_damage(spans, pieces), *([layout.note] if layout.note else [])]
    rows = sum(piece.rows for piece in pieces)
    place = np.concatenate([piece.place for piece in pieces])
    fetch = _fetcher(spans, np.cumsum([0, *(piece.rows for piece in pieces)]), place, layout)
    numbers, words, found = joined(pieces)
    notes += found
    if layout.derive is not None:
        notes += layout.derive(numbers)
    if share < 1:
        notes.append(f"{share:.1%} of the groups were looked at in detail (repetition, programs, similarity)")
    return Frame(
        rows=rows,
        numbers_by_name=numbers,
        words_by_name=words,
        source=str(path) if layout.name == "coevo" else f"{path} ({layout.title})",
        notes=tuple(notes),
        truth=layout.truth,
        fetch=fetch,
    )


def _damage(spans: Sequence[Span], pieces: Iterable[Piece]) -> list[str]:
    """Lines that are no rows, by file and line."""
    named: list[str] = []
    broken = before = 0
    file = ""
    for span, piece in zip(spans, pieces, strict=False):
        if span.path != file:
            file, before = span.path, 0
        for number, why in piece.damaged:
            if len(named) < TOLD:
                named.append(f"{Path(span.path).name} line {before + number:,}: {why}")
        before += piece.lines
        broken += piece.broken
    if not broken:
        return []
    more = f"; and {broken - len(named):,} more" if broken > len(named) else ""
    return [f"{broken:,} lines are no rollouts: {'; '.join(named)}{more}"]


def _fetcher(
    spans: Sequence[Span], starts: np.ndarray, place: np.ndarray, layout: Layout
) -> Callable[[Sequence[int]], list[dict[str, Any]]]:
    def fetch(rows: Sequence[int]) -> list[dict[str, Any]]:
        out: dict[int, Record] = {}
        by_span: dict[int, list[int]] = {}
        for row in rows:
            if not 0 <= row < len(place):
                raise UsageError(f"there is no row {row:,}: the evidence has {len(place):,}")
            by_span.setdefault(int(np.searchsorted(starts, row, side="right")) - 1, []).append(row)
        for index, wanted in by_span.items():
            span = spans[index]
            places = [(int(place[row, 0]), int(place[row, 1])) for row in wanted]
            found = SOURCES[span.kind].fetch(span, layout, places)
            out.update(zip(wanted, found, strict=True))
        return [out[row] for row in rows]

    return fetch
