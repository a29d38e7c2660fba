"""Parquet exports of a run (`coevo export RUN rollouts FILE.parquet`): a few columns, and the whole row as JSON text in `payload`."""

from __future__ import annotations

from collections.abc import Collection

from coevo.evidence.layouts import Layout, Record
from coevo.runs.jsontext import loads


def recognises(columns: Collection[str]) -> bool:
    return {"payload", "task", "split"} <= set(columns) and "response" not in columns


def unfold(record: Record) -> list[Record] | None:
    payload = record.get("payload")
    if not isinstance(payload, str):
        return None
    try:
        row = loads(payload)
    except (ValueError, RecursionError):
        return None
    return [row] if isinstance(row, dict) else None


LAYOUT = Layout(
    name="export",
    title="rollouts exported by coevo",
    recognises=recognises,
    unfold=unfold,
)
