"""The database of a run: its tables, its version, and how an older one is brought up to date.

To change the schema: raise `SCHEMA`, add the step from the version before to `MIGRATIONS`, and keep a run written by
the old version under `tests/runs/fixtures/`.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Mapping
from pathlib import Path
from urllib.parse import quote

from coevo.errors import RunTooNew, StoreError

SCHEMA = 1
APPLICATION_ID = 0x636F6576
"""Spells "coev"; written to the header of the file, so that `file run.db` and we can tell what it is."""

_TABLES = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;

CREATE TABLE events (
    id INTEGER PRIMARY KEY, ts REAL NOT NULL, step INTEGER, kind TEXT NOT NULL, payload TEXT NOT NULL);
CREATE INDEX events_by_kind ON events (kind);
CREATE TRIGGER events_are_not_changed BEFORE UPDATE ON events
    BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;
CREATE TRIGGER events_are_not_removed BEFORE DELETE ON events
    BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;
CREATE TRIGGER events_are_not_replaced BEFORE INSERT ON events WHEN NEW.id IN (SELECT id FROM events)
    BEGIN SELECT RAISE(ABORT, 'events are append-only'); END;

CREATE TABLE programs (
    row INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, main TEXT NOT NULL, size INTEGER NOT NULL, files BLOB NOT NULL);

CREATE TABLE evaluations (
    row INTEGER PRIMARY KEY, program_id TEXT NOT NULL, split TEXT NOT NULL, seed TEXT NOT NULL, payload TEXT NOT NULL,
    UNIQUE (program_id, split, seed));

CREATE TABLE completions (row INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, payload TEXT NOT NULL);

CREATE TABLE rollouts (
    row INTEGER PRIMARY KEY, step INTEGER, split TEXT NOT NULL, task TEXT NOT NULL, "group" TEXT, branch TEXT,
    reward REAL, truth REAL, kept INTEGER, payload TEXT NOT NULL);
CREATE INDEX rollouts_by_step ON rollouts (branch, step);

CREATE TABLE ledger (
    purpose TEXT PRIMARY KEY, settled INTEGER NOT NULL, evaluations INTEGER NOT NULL, proposals INTEGER NOT NULL,
    tokens INTEGER NOT NULL, usd INTEGER NOT NULL, minutes INTEGER NOT NULL, cpu_minutes INTEGER NOT NULL) WITHOUT ROWID;

CREATE TABLE reservations (
    id INTEGER PRIMARY KEY, ts REAL NOT NULL, step INTEGER, purpose TEXT NOT NULL, amounts TEXT NOT NULL);
"""

Migration = Callable[[sqlite3.Connection], None]

MIGRATIONS: Mapping[int, Migration] = {}
"""From version n (the key) to n + 1. Each runs inside one transaction with all the others."""


def connect(path: Path, *, write: bool) -> sqlite3.Connection:
    """Open an existing database file in autocommit mode. sqlite3 and OS errors pass."""
    if write:
        conn = _open(path, "mode=rw")
        conn.execute("PRAGMA journal_mode = WAL")
        conn.execute("PRAGMA synchronous = NORMAL")
        conn.execute("PRAGMA wal_autocheckpoint = 4000")
        conn.execute("PRAGMA journal_size_limit = 67108864")
        conn.execute("PRAGMA recursive_triggers = ON")
        return conn
    conn = _open(path, "mode=ro")
    try:
        conn.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    except sqlite3.OperationalError:
        wal = path.with_name(path.name + "-wal")
        if wal.exists() and wal.stat().st_size:
            raise
        # A reader of a WAL database wants to create the shared index; where the folder forbids it and nothing is
        # pending, nobody can be writing either, and the file may be read as it is.
        conn.close()
        conn = _open(path, "immutable=1")
    return conn


def _open(path: Path, options: str) -> sqlite3.Connection:
    return sqlite3.connect(
        f"file:{quote(os.fsencode(path.absolute()))}?{options}",
        uri=True,
        timeout=30.0,
        isolation_level=None,
        check_same_thread=False,
    )


def build(path: Path) -> sqlite3.Connection:
    """A new database with empty tables at `path`, which must not exist."""
    conn = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    conn.executescript(f"BEGIN; {_TABLES} PRAGMA user_version = {SCHEMA}; COMMIT;")
    conn.execute(f"PRAGMA application_id = {APPLICATION_ID}")
    return conn


def version_of(conn: sqlite3.Connection) -> int:
    """Schema version of an open database, or a `StoreError` if coevo did not write it."""
    if conn.execute("PRAGMA application_id").fetchone()[0] != APPLICATION_ID:
        raise StoreError("its run.db was not written by coevo")
    return int(conn.execute("PRAGMA user_version").fetchone()[0])


def migrate(
    conn: sqlite3.Connection, *, target: int = SCHEMA, migrations: Mapping[int, Migration] = MIGRATIONS
) -> list[int]:
    """Bring a database to version `target`, all or nothing; returns the versions that were left behind.

    Raises `RunTooNew` for a newer database and `StoreError` where a step is missing; neither changes anything.
    """
    found = version_of(conn)
    if found > target:
        raise RunTooNew(
            f"it was written with schema {found} by a newer coevo; this one reads up to {target}. "
            "Nothing was changed; upgrade with `pip install -U coevo`"
        )
    steps = list(range(found, target))
    missing = [step for step in steps if step not in migrations]
    if missing:
        raise StoreError(f"its schema {found} cannot be brought to {target}: no migration from {missing[0]}")
    if not steps:
        return []
    conn.execute("BEGIN IMMEDIATE")
    try:
        for step in steps:
            migrations[step](conn)
        conn.execute(f"PRAGMA user_version = {target}")
        conn.execute("COMMIT")
    except BaseException:
        conn.execute("ROLLBACK")
        raise
    return steps


def truncated(path: Path) -> str | None:
    """Why the file at `path` cannot be whole by its own header, or None. Cheap: reads 100 bytes.

    While a write-ahead log is pending the main file may lag behind its header, so nothing is concluded then.
    """
    wal = path.with_name(path.name + "-wal")
    if wal.exists() and wal.stat().st_size:
        return None
    with path.open("rb") as file:
        header = file.read(100)
    size = path.stat().st_size
    if len(header) < 100:
        return f"run.db has {size} bytes, fewer than a database header"
    if header[:16] != b"SQLite format 3\0":
        return "run.db does not begin like an SQLite database"
    page = int.from_bytes(header[16:18], "big")
    expected = (65536 if page == 1 else page) * int.from_bytes(header[28:32], "big")
    return f"run.db has {size:,} of {expected:,} bytes" if size < expected else None
