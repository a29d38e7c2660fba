"""Whether a run's database is whole, and says the same thing everywhere. Used by tests, and by anyone in doubt."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

from coevo.runs import folder

if TYPE_CHECKING:
    from coevo.runs.store import Run


def problems(run: Run) -> list[str]:
    """What is wrong, one sentence each; empty for a sound run. Reads everything once."""
    try:
        found = [f"database: {row[0]}" for row in run.connection.execute("PRAGMA integrity_check") if row[0] != "ok"]
        if found:
            return found
        ids = [row[0] for row in run.connection.execute("SELECT id FROM events ORDER BY id")]
        if ids != list(range(1, len(ids) + 1)):
            found.append("events: their ids are not 1, 2, 3, ...")
        named = _named_keys(run)
        for table, column in (("programs", "id"), ("evaluations", "program_id"), ("completions", "key")):
            keys = {row[0] for row in run.connection.execute(f"SELECT {column} FROM {table}")}
            found += [f"{table}: no event names {key!r}" for key in sorted(keys - named)[:5]]
    except sqlite3.Error as e:
        return [str(folder.trouble(run.path, e, "checking"))]
    return found


def _named_keys(run: Run) -> set[str]:
    """Every text in the payload of an event, at any depth."""
    seen: set[str] = set()
    for event in run.events():
        waiting: list[object] = [event.payload]
        while waiting:
            value = waiting.pop()
            if isinstance(value, str):
                seen.add(value)
            elif isinstance(value, dict):
                waiting += [*value.keys(), *value.values()]
            elif isinstance(value, list):
                waiting += value
    return seen
