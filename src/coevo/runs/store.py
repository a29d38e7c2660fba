"""A run: one folder with one database, which every loop writes and everything else reads.

    run.yaml     the resolved config, for people
    run.db       SQLite in WAL mode. `events` is append-only and is the truth; programs, evaluations, completions and
                 rollouts are rows that an event of the same transaction names
    run.lock     held by the one writer
    artifacts/   exports, plots, reports

A kill at any moment loses at most the transaction in flight. A power cut may lose the last moments as well, never the
consistency (`synchronous = NORMAL`).
"""

from __future__ import annotations

import sqlite3
import threading
import time
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

from coevo.errors import StoreError, UsageError
from coevo.programs import Program
from coevo.runs import folder
from coevo.runs.jsontext import dumps, loads
from coevo.runs.ledger import Ledger
from coevo.runs.lock import WriterLock
from coevo.runs.transaction import Transaction
from coevo.runs.types import Budget, Event, State

OWN_KINDS = "run."
"""Events whose kind begins so are about the folder (opened, stopped, ...), not about the work; only `Run` appends them."""

_PAGE = 500
_EVENT = "INSERT INTO events (ts, step, kind, payload) VALUES (?, ?, ?, ?)"
_PROGRAM = "INSERT OR {} INTO programs (id, main, size, files) VALUES (?, ?, ?, ?)"
_EVALUATION = "INSERT OR {} INTO evaluations (program_id, split, seed, payload) VALUES (?, ?, ?, ?)"
_COMPLETION = "INSERT OR IGNORE INTO completions (key, payload) VALUES (?, ?)"
_ROLLOUT = (
    'INSERT INTO rollouts (step, split, task, "group", branch, reward, truth, kept, payload) '
    "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)
TABLES = ("events", "programs", "evaluations", "completions", "rollouts")


class Run:
    """Made by `Run.create` or `Run.open`; close it, or use it in a `with`. Thread-safe.

    Every method raises `StoreError` when the folder cannot be read or written; the message says what was kept.
    """

    def __init__(self, path: Path, connection: sqlite3.Connection, lock: WriterLock | None) -> None:
        """For `create` and `open`, which check what is given here."""
        self.path = path
        self._connection = connection
        self._writer = lock
        self.lock = threading.RLock()
        self._transaction = Transaction(self)
        self.closed = False
        self.meta: dict[str, Any] = {k: loads(v) for k, v in self._rows("SELECT key, value FROM meta")}
        self.ledger = Ledger(self, Budget.model_validate(self.meta["budget"]))

    @classmethod
    def create(cls, path: str | Path, *, kind: str, config: Mapping[str, Any], budget: Budget | None = None) -> Run:
        """A new run, open for writing. `kind` says which loop it belongs to; `config` is plain data.

        Raises `StoreError` if the folder holds a run or anything else, or cannot be written.
        """
        path = Path(path)
        lock = folder.claim(path)
        try:
            folder.build(path, kind=kind, config=config, budget=budget or Budget())
            run = cls._attach(path, lock)
        except BaseException:
            lock.release()
            raise
        run._append("run.created", {"kind": kind, **folder.who()}, None)
        return run

    @classmethod
    def open(cls, path: str | Path, *, write: bool, budget: Budget | None = None) -> Run:
        """An existing run. With `write`, takes the writer's lock and settles what a killed writer left open.

        `budget` (with `write`) replaces the bounds; what was spent stays spent. Raises `RunLocked`, `RunTooNew`, or
        `StoreError` for a folder that holds no run, is damaged, or may not be written.
        """
        path = Path(path)
        folder.require(path)
        lock = folder.take_lock(path) if write else None
        try:
            run = cls._attach(path, lock)
        except BaseException:
            if lock:
                lock.release()
            raise
        try:
            if write:
                folder.require_same_config(path, run.meta)
                run._resume(budget)
        except BaseException:
            run._drop()
            raise
        return run

    @classmethod
    def _attach(cls, path: Path, lock: WriterLock | None) -> Run:
        connection = folder.connect(path, write=lock is not None)
        try:
            with folder.reading(path):
                return cls(path, connection, lock)
        except BaseException:
            connection.close()
            raise

    def __enter__(self) -> Run:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and self.writable and self.state() is State.RUNNING:
            by = "the user (Ctrl-C)" if isinstance(error, KeyboardInterrupt) else f"{type(error).__name__}: {error}"
            with suppress(StoreError):  # The error on its way out is the one to see.
                self.mark(State.STOPPED, by=by)
        self.close()

    def close(self) -> None:
        """Write the clock, leave one whole file behind (no write-ahead log), give the lock back."""
        with self.lock:
            if self.closed:
                return
            try:
                if self.writable:
                    self.ledger.write_clock()
            finally:
                self._drop()

    def _drop(self) -> None:
        self.closed = True
        self._connection.close()
        if self._writer:
            self._writer.release()

    @property
    def writable(self) -> bool:
        return self._writer is not None

    @property
    def kind(self) -> str:
        return self.meta["kind"]

    @property
    def config(self) -> dict[str, Any]:
        return self.meta["config"]

    @property
    def artifacts(self) -> Path:
        return self.path / "artifacts"

    @property
    def connection(self) -> sqlite3.Connection:
        """The database itself, for the rooms of `runs`; use it only inside `transaction()`, or to read."""
        return self._connection

    # Writing

    def transaction(self) -> Transaction:
        """`with run.transaction():` all of it is stored, or none. Inside another one it joins that one.

        Other threads wait outside. Refused at the end (`StoreError`, nothing stored) if a row was put that no event of
        this transaction names.
        """
        return self._transaction

    def append(self, kind: str, payload: Mapping[str, Any], *, step: int | None = None) -> int:
        """Add an event and return its id (1, 2, ...). `payload` is plain data; see `jsontext.dumps`."""
        if kind.startswith(OWN_KINDS) or not kind:
            raise UsageError(f"event kind {kind!r}: kinds beginning with {OWN_KINDS!r} are the run's own")
        return self._append(kind, payload, step)

    def put_program(self, program: Program, *, replace: bool = False) -> bool:
        """Keep a program. True if it was stored; the first text of an id stays, unless `replace`. An event must name its id."""
        files = zlib.compress(dumps(program.files).encode(), 1)
        with self._transaction:
            new = self._put(
                _PROGRAM.format("REPLACE" if replace else "IGNORE"), (program.id, program.main, program.size, files)
            )
            if new:
                self._transaction.must_name("program", program.id)
        return new

    def put_evaluation(
        self, program_id: str, *, split: str, seed: int, payload: Mapping[str, Any], replace: bool = False
    ) -> bool:
        """Keep an evaluation (all of it, as plain data). An event must name the program's id.

        True if it was stored. An earlier one for the same (program, split, seed) stays and gives False, unless
        `replace` (for an earlier *unmeasured* one, say).
        """
        row = (program_id, split, str(seed), dumps(payload))
        with self._transaction:
            stored = self._put(_EVALUATION.format("REPLACE" if replace else "IGNORE"), row)
            if stored:
                self._transaction.must_name("evaluation of program", program_id)
        return stored

    def put_completion(self, key: str, payload: Mapping[str, Any]) -> bool:
        """Keep a model's reply under the key of its request. False if there was one. An event must name the key."""
        with self._transaction:
            new = self._put(_COMPLETION, (key, dumps(payload)))
            if new:
                self._transaction.must_name("completion", key)
        return new

    def put_rollouts(self, rows: Iterable[Mapping[str, Any]], *, step: int | None = None) -> int:
        """Keep evidence rows (schema 1: `task` and `split` are required) and the event `rollouts` that names them."""
        count = first = last = 0
        with self._transaction:
            for row in rows:
                if "task" not in row or "split" not in row:
                    raise UsageError(
                        f"a rollout needs 'task' and 'split'; this one has {', '.join(sorted(row)) or 'nothing'}"
                    )
                known = [row.get(k) for k in ("split", "task", "group", "branch", "reward", "truth", "kept")]
                cursor = self._connection.execute(_ROLLOUT, (row.get("step", step), *known, dumps(row)))
                last = cursor.lastrowid or 0
                first = first or last
                count += 1
            if count:
                self._append("rollouts", {"count": count, "first": first, "last": last}, step)
        return count

    def mark(self, state: State, *, by: str = "") -> None:
        """Record how the run ended: `FINISHED`, or `STOPPED` by someone or something."""
        if state not in (State.FINISHED, State.STOPPED):
            raise UsageError(f"a run can be marked finished or stopped, not {state}")
        with self._transaction:
            self.ledger.write_clock()
            self._append(f"run.{state}", {"by": by}, None)

    # Reading

    def events(self, *, after: int = 0, kinds: Iterable[str] | None = None) -> Iterator[Event]:
        """Events with ids over `after`, in order, read page by page. `kinds` picks some."""
        wanted = tuple(kinds) if kinds is not None else None
        if wanted is not None and not wanted:
            return
        where, args = "", ()
        if wanted is not None:
            # With several kinds the index would have to be sorted for each page; `+` makes it a walk by id.
            where, args = f"AND {'+' if len(wanted) > 1 else ''}kind IN ({', '.join('?' * len(wanted))})", wanted
        sql = f"SELECT id, ts, step, kind, payload FROM events WHERE id > ? {where} ORDER BY id LIMIT {_PAGE}"
        while rows := self._rows(sql, (after, *args)):
            with folder.reading(self.path):
                found = [_event(row) for row in rows]
            yield from found
            after = rows[-1][0]

    def program(self, program_id: str) -> Program:
        """The program with this id; `StoreError` if the run has none."""
        found = self._rows("SELECT id, main, files FROM programs WHERE id = ?", (program_id,))
        if not found:
            raise StoreError(f"run {self.path} holds no program {program_id!r}")
        return self._program(*found[0])

    def has_program(self, program_id: str) -> bool:
        return bool(self._rows("SELECT 1 FROM programs WHERE id = ?", (program_id,)))

    def programs(self) -> Iterator[Program]:
        """All programs in the order in which they were first kept."""
        for row in self.pages("SELECT row, id, main, files FROM programs"):
            yield self._program(*row[1:])

    def evaluation(self, program_id: str, *, split: str, seed: int) -> dict[str, Any] | None:
        """What `put_evaluation` kept, or None."""
        sql = "SELECT payload FROM evaluations WHERE program_id = ? AND split = ? AND seed = ?"
        found = self._rows(sql, (program_id, split, str(seed)))
        return self._loads(found[0][0]) if found else None

    def evaluations(self, program_id: str | None = None) -> Iterator[tuple[str, str, int, dict[str, Any]]]:
        """(program id, split, seed, payload) of all evaluations, or of one program's, in order of storing."""
        where, args = ("program_id = ?", (program_id,)) if program_id is not None else ("1", ())
        for row in self.pages("SELECT row, program_id, split, seed, payload FROM evaluations", where, args):
            with folder.reading(self.path):
                found = row[1], row[2], int(row[3]), loads(row[4])
            yield found

    def completion(self, key: str) -> dict[str, Any] | None:
        """What `put_completion` kept, or None."""
        found = self._rows("SELECT payload FROM completions WHERE key = ?", (key,))
        return self._loads(found[0][0]) if found else None

    def completions(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """(key, payload) of all replies, in order of storing."""
        for row in self.pages("SELECT row, key, payload FROM completions"):
            yield row[1], self._loads(row[2])

    def rollouts(self, *, split: str | None = None) -> Iterator[dict[str, Any]]:
        """Evidence rows in order of storing; of one split, if named."""
        where, args = ("split = ?", (split,)) if split is not None else ("1", ())
        for row in self.pages("SELECT row, payload FROM rollouts", where, args):
            yield self._loads(row[1])

    def counts(self) -> dict[str, int]:
        """Rows per table."""
        return {name: self._rows(f"SELECT count(*) FROM {name}")[0][0] for name in TABLES}

    def last_event(self) -> Event:
        """The newest event; a run has at least the one that made it."""
        row = self._rows("SELECT id, ts, step, kind, payload FROM events ORDER BY id DESC LIMIT 1")[0]
        with folder.reading(self.path):
            return _event(row)

    def state(self) -> State:
        """What became of the run, as its own events and the writer's lock tell."""
        return folder.state(self)[0]

    def digest(self, *, kinds: Sequence[str] = ()) -> str:
        """SHA-256 over everything that must come out the same again; see `coevo.runs.digest`."""
        from coevo.runs.digest import digest

        return digest(self, kinds=kinds)

    def pages(
        self, select: str, where: str = "1", args: tuple[Any, ...] = (), *, after: int = 0
    ) -> Iterator[tuple[Any, ...]]:
        """Rows of a `SELECT row, ...` in order of `row`, those over `after`, a page at a time, so that memory stays flat."""
        sql = f"{select} WHERE row > ? AND {where} ORDER BY row LIMIT {_PAGE}"
        while rows := self._rows(sql, (after, *args)):
            yield from rows
            after = rows[-1][0]

    # Inside

    def _rows(self, sql: str, args: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        with self.lock:
            try:
                return self._connection.execute(sql, args).fetchall()
            except (sqlite3.Error, OSError) as e:
                raise folder.trouble(self.path, e, "reading") from e

    def _loads(self, text: str) -> Any:
        with folder.reading(self.path):
            return loads(text)

    def _program(self, program_id: str, main: str, files: bytes) -> Program:
        try:
            content = loads(zlib.decompress(files).decode())
        except (zlib.error, ValueError, TypeError) as e:
            raise StoreError(
                f"run {self.path}: the source of program {program_id!r} is damaged ({e}). The rest can still be read"
            ) from e
        program = Program(tuple((name, text) for name, text in content), main)
        program.__dict__["id"] = (
            program_id  # The stored id was this text's; hashing it again costs more than reading it.
        )
        return program

    def _put(self, sql: str, row: tuple[Any, ...]) -> bool:
        try:
            return self._connection.execute(sql, row).rowcount > 0
        except UnicodeEncodeError:
            raise UsageError(
                f"cannot store under the name {row[0]!r}: it holds a lone surrogate; use valid text"
            ) from None

    def _append(self, kind: str, payload: Mapping[str, Any], step: int | None) -> int:
        text = dumps(payload)
        with self._transaction:
            event_id = self._connection.execute(_EVENT, (time.time(), step, kind, text)).lastrowid or 0
            self._transaction.texts.append(text)
        return event_id

    def _resume(self, budget: Budget | None) -> None:
        with self._transaction:
            lost = self.ledger.recover()
            self._append("run.opened", folder.who(), None)
            if lost:
                self._append("run.lost", lost, None)
            if budget is not None and budget != self.ledger.budget:
                self.meta["budget"] = budget.model_dump()
                self._connection.execute(
                    "UPDATE meta SET value = ? WHERE key = 'budget'", (dumps(self.meta["budget"]),)
                )
                self.ledger.replace_budget(budget)
                self._append("run.budget", self.meta["budget"], None)


def _event(row: tuple[Any, ...]) -> Event:
    event_id, ts, step, kind, payload = row
    return Event(event_id, ts, step, kind, loads(payload))
