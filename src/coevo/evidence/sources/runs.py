"""Run folders: the rollouts that `coevo train`, `coevo lab` or any trainer put into a run's store. A row's place is its row id there."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from coevo.errors import UsageError
from coevo.evidence.columns import Builder, Piece
from coevo.evidence.layouts import Layout, Record
from coevo.evidence.sources import Plan, Span
from coevo.runs import Run
from coevo.runs.jsontext import loads

DB = "run.db"
LAB = "lab"
BATCH = 1_000
SPAN = 10_000
"""Rollouts of a span."""
GAP = 32
"""Rows between two wanted ones that are read along rather than sought anew."""


def runs_in(folder: Path) -> list[Path]:
    """The run in a folder, if it holds rollouts, else the runs up to three folders below. A lab is its branches: the rows in its own store
    are the gate's samples, and count only while no branch has any."""
    found = [folder] if (folder / DB).is_file() else []
    if found:
        kind, rows = _told(folder)
        if rows and kind != LAB:
            return found
    below = sorted(path.parent for depth in ("*", "*/*", "*/*/*") for path in folder.glob(f"{depth}/{DB}"))
    return [path for path in below if _told(path)[1]] or found


def _told(folder: Path) -> tuple[str, int]:
    """What kind of run it is, and how many rollouts it holds."""
    with Run.open(folder, write=False) as run:
        return run.kind, run.counts()["rollouts"]


def plan(folders: list[Path]) -> Plan:
    spans: list[Span] = []
    sample: list[Record] = []
    rows = size = 0
    for folder in folders:
        with Run.open(folder, write=False) as run:
            ids = [row[0] for row in run.pages("SELECT row FROM rollouts")]
            rows += len(ids)
            cuts = ids[::SPAN]
            ends = [*cuts[1:], (ids[-1] + 1) if ids else 0]
            spans += [Span("runs", str(folder), a, b) for a, b in zip(cuts, ends, strict=False)]
            for _, record in _rows(run, ids[0] - 1 if ids else 0, ids[-1] + 1 if ids else 0):
                size += len(ids) * (len(str(record.get("prompt"))) + len(str(record.get("response"))) + 1000)
                sample.append(record)
                break
    return Plan("runs", tuple(spans), tuple(sample), rows, size)


def _rows(run: Run, after: int, stop: int) -> Iterator[tuple[int, Record]]:
    # Where a page begins is said once: of two lower bounds the planner may seek the lower one, and read all before the place.
    for row, payload in run.pages("SELECT row, payload FROM rollouts", "row < ?", (stop,), after=after):
        yield row, loads(payload)


def read(span: Span, layout: Layout, *, texts: bool, share: float, limit: int | None = None) -> Piece:
    """The rollouts of a span."""
    builder = Builder(layout, texts=texts, share=share)
    batch: list[Record] = []
    places: list[int] = []

    def flush() -> None:
        if batch:
            column = np.array(places, dtype=np.int64)
            builder.add_records(batch, np.stack([column, np.zeros_like(column)], axis=1))
            batch.clear()
            places.clear()

    with Run.open(span.path, write=False) as run:
        for row, record in _rows(run, span.start - 1, span.stop):
            batch.append(record)
            places.append(row)
            if len(batch) >= BATCH:
                flush()
            if limit is not None and builder.rows + len(batch) >= limit:
                break
    flush()
    return builder.done(lines=builder.rows)


def fetch(span: Span, layout: Layout, places: list[tuple[int, int]]) -> list[Record]:
    """Rollouts by their places; places that lie close together are read at once."""
    wanted = sorted({place for place, _ in places})
    found: dict[int, Record] = {}
    with Run.open(span.path, write=False) as run:
        for part in _close(wanted):
            asked = set(part)
            found |= {row: layout.row(record) for row, record in _rows(run, part[0] - 1, part[-1] + 1) if row in asked}
    for place in wanted:
        if place not in found:
            raise UsageError(f"run {span.path} has no rollout {place} any more; open it again")
    return [found[place] for place, _ in places]


def _close(places: list[int]) -> Iterator[list[int]]:
    """Sorted places in parts without a gap over `GAP`."""
    part: list[int] = []
    for place in places:
        if part and place - part[-1] > GAP:
            yield part
            part = []
        part.append(place)
    if part:
        yield part
