"""The folder around the database: making it, claiming it, and saying what is wrong with it."""

from __future__ import annotations

import os
import platform
import socket
import sqlite3
import sys
import time
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from coevo import __version__
from coevo.config import read_yaml
from coevo.errors import ConfigError, StoreError, UsageError
from coevo.runs import schema
from coevo.runs.jsontext import dumps, loads
from coevo.runs.lock import NAME as LOCK
from coevo.runs.lock import WriterLock, holder
from coevo.runs.types import Budget, State

if TYPE_CHECKING:
    from coevo.runs.store import Run

DB, CONFIG, ARTIFACTS = "run.db", "run.yaml", "artifacts"
_MAKING = "run.db.new"
_OURS = {LOCK, CONFIG, ARTIFACTS, _MAKING, f"{_MAKING}-journal", f"{CONFIG}.new"}


def who() -> dict[str, Any]:
    """Which process on which machine; kept in the events about the folder."""
    return {"pid": os.getpid(), "host": socket.gethostname(), "coevo": __version__}


def claim(path: Path) -> WriterLock:
    """Make the folder of a new run and lock it, or raise a `StoreError`. What an interrupted `create` left is taken over."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        if (path / DB).exists():
            raise StoreError(f"{path} holds a run already. Go on with `coevo resume {path}`, or choose another folder")
        foreign = sorted({p.name for p in path.iterdir()} - _OURS)
        if foreign:
            raise StoreError(
                f"{path} is not empty (it holds {', '.join(foreign[:3])}); choose another folder for the run"
            )
    except OSError as e:
        raise StoreError(f"cannot make run folder {path}: {e.strerror or e}. Choose another with --out DIR") from e
    return take_lock(path)


def build(path: Path, *, kind: str, config: Mapping[str, Any], budget: Budget) -> None:
    """Write run.yaml, artifacts/ and, last of all, run.db: a folder is a run from the moment that file has its name."""
    plain = loads(dumps(config))
    if not kind or not isinstance(plain, dict):
        raise UsageError(f"a run needs a kind and a config of names and values, not {kind!r} and {config!r}")
    meta = {
        "kind": kind,
        "config": plain,
        "budget": budget.model_dump(),
        "created": time.time(),
        "coevo": __version__,
        "python": platform.python_version(),
        "platform": sys.platform,
    }
    making = path / _MAKING
    try:
        (path / ARTIFACTS).mkdir(exist_ok=True)
        text = yaml.safe_dump(plain, sort_keys=False, allow_unicode=False, width=120)
        head = f"# The resolved config of this run (kind: {kind}), as it was made. A change here does not change the run.\n"
        new = path / f"{CONFIG}.new"
        new.write_text(head + text, encoding="utf-8")
        new.replace(path / CONFIG)
        making.unlink(missing_ok=True)
        conn = schema.build(making)
        try:
            conn.executemany("INSERT INTO meta (key, value) VALUES (?, ?)", [(k, dumps(v)) for k, v in meta.items()])
        finally:
            conn.close()
        making.replace(path / DB)
    except (OSError, sqlite3.Error) as e:
        raise trouble(path, e, "making") from e


def require(path: Path) -> None:
    """Raise a `StoreError` unless `path` looks like the folder of a run."""
    if (path / DB).is_file():
        return
    if path.is_file():
        raise StoreError(f"{path} is a file, not the folder of a run; name the folder that holds run.db")
    what = "does not exist" if not path.exists() else "is not the folder of a run: it holds no run.db"
    raise StoreError(
        f"{path} {what}. A run is made by `coevo evolve TASK --out {path}`, a lab by `coevo lab new {path}`"
    )


def take_lock(path: Path) -> WriterLock:
    """The writer's lock, `RunLocked`, or a `StoreError` for a folder that may not be written."""
    try:
        return WriterLock(path)
    except OSError as e:
        raise StoreError(
            f"cannot write to run {path}: {e.strerror or e}. Nothing was changed; reading (status, export) still works. "
            "Make the folder writable, or copy it and resume the copy"
        ) from e


def connect(path: Path, *, write: bool) -> sqlite3.Connection:
    """Open run.db, checked and brought to this version's schema (a reader migrates a copy in memory)."""
    file = path / DB
    conn = None
    try:
        if cut := schema.truncated(file):
            raise StoreError(f"{cut}. {_damage_advice(path)}")
        conn = schema.connect(file, write=write)
        if not write and schema.version_of(conn) < schema.SCHEMA:
            copy = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
            conn.backup(copy)
            conn.close()
            conn = copy
        schema.migrate(conn)
        return conn
    except (OSError, sqlite3.Error, StoreError) as e:
        if conn is not None:
            conn.close()
        if isinstance(e, StoreError):
            raise type(e)(f"cannot open run {path}: {e}") from e
        raise trouble(path, e, "opening") from e


def require_same_config(path: Path, meta: Mapping[str, Any]) -> None:
    """Refuse to write to a run whose run.yaml was edited: ignoring the edit silently would be worse."""
    file = path / CONFIG
    if not file.exists():
        return
    try:
        same = dumps(read_yaml(file), canonical=True) == dumps(meta["config"], canonical=True)
    except (ConfigError, StoreError):
        same = False
    if not same:
        raise StoreError(
            f"{file} was changed after the run was made, and a run keeps the config it began with. Undo the change "
            "(or delete run.yaml), or start a new run with the new config"
        )


def state(run: Run) -> tuple[State, str]:
    """State of a run and who or what ended it (or, while it is running, who is writing)."""
    last = run._rows(
        "SELECT kind, payload FROM events WHERE kind IN ('run.created', 'run.opened', 'run.finished', 'run.stopped') "
        "ORDER BY id DESC LIMIT 1"
    )
    kind, payload = last[0] if last else ("run.created", "{}")
    if kind == "run.finished":
        return State.FINISHED, loads(payload)["by"]
    if kind == "run.stopped":
        return State.STOPPED, loads(payload)["by"]
    if run.writable:
        return State.RUNNING, f"process {os.getpid()}"
    writer = holder(run.path)
    return (State.RUNNING, writer) if writer else (State.INTERRUPTED, "its process ended without a word")


def trouble(path: Path, error: Exception, doing: str) -> StoreError:
    """The `StoreError` for what sqlite3 or the system said while `doing` something to the run at `path`."""
    text = str(error)
    low = text.lower()
    if doing == "making":  # There is no run to keep or to resume: the folder becomes one with its last file.
        said = (error.strerror if isinstance(error, OSError) else None) or text
        return StoreError(
            f"making run {path} failed: {said}. Nothing was begun; see that the folder may be written and that there is space "
            "(a run needs a few megabytes), then give the same command again"
        )
    if isinstance(error, OSError):
        return StoreError(f"{doing} run {path} failed: {error.strerror or error}. Everything stored before is kept")
    if "full" in low or "disk i/o error" in low:
        return StoreError(
            f"{doing} run {path} failed: {text} (no space left, or the disk refuses). Everything stored before this step is "
            f"kept; free some space, then go on with `coevo resume {path}`"
        )
    if "readonly" in low or "read-only" in low or "unable to open" in low:
        return StoreError(
            f"{doing} run {path} failed: {text}. Everything stored is kept; check that you may read and write the folder"
        )
    if "locked" in low or "busy" in low:
        return StoreError(
            f"{doing} run {path} failed: {text}. Another program holds run.db itself; close it, then `coevo resume {path}`"
        )
    if "malformed" in low or "not a database" in low or "corrupt" in low:
        return StoreError(f"{doing} run {path} failed: {text}. {_damage_advice(path)}")
    return StoreError(f"{doing} run {path} failed: {type(error).__name__}: {text}. Everything stored before is kept")


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turns what sqlite3 says, and rows that are no longer what was stored, into a `StoreError`. Reads alone belong inside."""
    try:
        yield
    except (sqlite3.Error, OSError) as e:
        raise trouble(path, e, "reading") from e
    except (ValueError, TypeError, LookupError, zlib.error) as e:
        why = f"a stored row cannot be read ({type(e).__name__}: {e})"
        raise StoreError(f"reading run {path} failed: {why}. {_damage_advice(path)}") from e


def _damage_advice(path: Path) -> str:
    return (
        f"The file is damaged; nothing was changed. Restore {path / DB} from a copy, or save what can be read with "
        f"`sqlite3 {path / DB} .recover > rescued.sql`"
    )
