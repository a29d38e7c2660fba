"""Transactions of a run: all of a step or nothing of it, and no row that an event does not name."""

from __future__ import annotations

import sqlite3
from json.encoder import encode_basestring_ascii
from types import TracebackType
from typing import TYPE_CHECKING

from coevo.errors import BudgetSpent, StoreError, UsageError
from coevo.runs import folder

if TYPE_CHECKING:
    from coevo.runs.store import Run


class Transaction:
    """See `Run.transaction`. One per run; re-entrant; commits when the outermost `with` ends."""

    def __init__(self, run: Run) -> None:
        self._run = run
        self._depth = 0
        self._broken = False
        self._unnamed: list[tuple[str, str]] = []
        self.texts: list[str] = []
        """Payloads of the events of this transaction."""

    def must_name(self, what: str, key: str) -> None:
        """Refuse to commit unless an event of this transaction holds `key` as a text of its own."""
        self._unnamed.append((what, key))

    def __enter__(self) -> None:
        run = self._run
        run.lock.acquire()
        try:
            if self._depth == 0:
                if run.closed or not run.writable:
                    how = "is closed" if run.closed else "was opened for reading; open it with write=True"
                    raise StoreError(f"cannot write to run {run.path}: it {how}")
                run.connection.execute("BEGIN IMMEDIATE")
            self._depth += 1
        except sqlite3.Error as e:
            run.lock.release()
            raise folder.trouble(run.path, e, "writing") from e
        except BaseException:
            run.lock.release()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        run = self._run
        try:
            self._depth -= 1
            raised = error
            if error is None and not self._depth:
                error = self._commit()
            if error is None:
                return
            # Refusals are made before anything is written; after any other error a part may be missing, and an outer
            # block that caught the error must not commit the rest.
            self._broken = self._broken or not isinstance(error, BudgetSpent | UsageError)
            if not self._depth:
                self._roll_back()
            if isinstance(error, sqlite3.Error):
                raise folder.trouble(run.path, error, "writing") from error
            if raised is None:
                raise error
        finally:
            if not self._depth:
                self._broken, self._unnamed, self.texts = False, [], []
            run.lock.release()

    def _commit(self) -> StoreError | sqlite3.Error | None:
        run = self._run
        if self._broken:
            return StoreError(
                f"nothing of this step was stored in run {run.path}: a part of its transaction had failed"
            )
        for what, key in self._unnamed:
            quoted = encode_basestring_ascii(key)
            if not any(quoted in text for text in self.texts):
                return StoreError(
                    f"{what} {key!r} was put without an event that names it: append one in the same transaction"
                )
        try:
            run.connection.execute("COMMIT")
        except sqlite3.Error as e:
            return e
        run.ledger.committed()
        return None

    def _roll_back(self) -> None:
        run = self._run
        if run.connection.in_transaction:
            run.connection.execute("ROLLBACK")
        run.ledger.rolled_back()
