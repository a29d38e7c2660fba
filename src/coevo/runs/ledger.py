"""The budget ledger: reserve before the work, settle after it, never find out too late.

Amounts are whole numbers of small units (`types.SCALE`), so totals are exact and do not depend on the order of
settling. Totals are stored as they change, in the transaction that is open. Reservations that may cost money are
stored, too: should the process be killed while they are open, the next writer counts their dollars as `lost`, since the
endpoint may have charged them. Other reservations cost nothing until settled, and die with the process.
"""

from __future__ import annotations

import sqlite3
import time
from typing import Any, Protocol

from coevo.errors import UsageError
from coevo.runs.jsontext import dumps, loads
from coevo.runs.types import CLOCK, DIMENSIONS, LOST, Budget, OverBudget, Ticket, from_units, to_units

_CLOCK_PERIOD_S = 1.0
"""Active time is written along with other work, at most this often: a kill loses this much of the count."""

_MICRO_PER_SECOND = to_units("minutes", 1) / 60
_MINUTES = DIMENSIONS.index("minutes")
_TIMED = ("minutes", "cpu_minutes")

_STORE = (
    f"INSERT INTO ledger (purpose, settled, {', '.join(DIMENSIONS)}) VALUES (?, ?, ?, ?, ?, ?, ?, ?) "
    "ON CONFLICT (purpose) DO UPDATE SET settled = excluded.settled, "
    + ", ".join(f"{name} = excluded.{name}" for name in DIMENSIONS)
)


class Desk(Protocol):
    """What a ledger needs of its run: one connection, its transactions, and whether it may write."""

    @property
    def connection(self) -> sqlite3.Connection: ...

    @property
    def writable(self) -> bool: ...

    def transaction(self) -> Any: ...


class Ledger:
    """Budget of one run. Thread-safe through the run's own lock; every amount here is in natural units."""

    def __init__(self, desk: Desk, budget: Budget) -> None:
        self._desk = desk
        self._limits = budget.limits()
        self._budget = budget
        self._totals: dict[str, list[int]] = {}
        self._tickets: dict[int, Ticket] = {}
        self._next = 1
        self._undo: tuple[dict[str, list[int]], dict[int, Ticket]] | None = None
        for purpose, *amounts in desk.connection.execute(
            f"SELECT purpose, settled, {', '.join(DIMENSIONS)} FROM ledger"
        ):
            self._totals[purpose] = [int(amount) for amount in amounts]
        clock = self._totals.get(CLOCK)
        self._clock_before = clock[1 + _MINUTES] if clock else 0
        self._clock_start = self._clock_written = time.monotonic()

    @property
    def budget(self) -> Budget:
        return self._budget

    def reserve(self, purpose: str, *, step: int | None = None, **amounts: float) -> Ticket:
        """Hold `amounts` for work that is about to start.

        An amount of 0 asks only that its dimension is not spent. `minutes` cannot be asked for, since a run's
        own clock counts them; once they, or `cpu_minutes`, are spent, nothing more can be reserved. Raises `OverBudget`
        (a `BudgetSpent`) and holds nothing when any dimension does not allow it.
        """
        if "minutes" in amounts:
            raise UsageError("minutes cannot be reserved: the run counts its own active time")
        if purpose in (CLOCK, LOST):
            raise UsageError(f"purpose {purpose!r} is the ledger's own; choose another name")
        units = {name: to_units(name, amount) for name, amount in amounts.items()}
        with self._desk.transaction():
            self._check({**dict.fromkeys(_TIMED, 0), **units})
            self._remember()
            ticket = Ticket(self._next, purpose, step, units)
            self._next += 1
            self._tickets[ticket.id] = ticket
            if units.get("usd"):
                self._desk.connection.execute(
                    "INSERT INTO reservations (id, ts, step, purpose, amounts) VALUES (?, ?, ?, ?, ?)",
                    (ticket.id, time.time(), step, purpose, dumps(units)),
                )
        return ticket

    def settle(self, ticket: Ticket, **amounts: float) -> None:
        """Charge what the work really took and drop the reservation.

        A dimension that is not given is charged as reserved. More than was reserved is charged as it is: it has
        been spent. Raises `UsageError` for a ticket that is not open (settled twice, say).
        """
        given = {name: to_units(name, amount) for name, amount in amounts.items()}
        with self._desk.transaction():
            self._close(ticket)
            self._charge(ticket.purpose, {**ticket.amounts, **given})
            self._write_clock(force=False)

    def release(self, ticket: Ticket) -> None:
        """Drop a reservation whose work was never started. Nothing is charged."""
        with self._desk.transaction():
            self._close(ticket)

    def spent(self) -> dict[str, float]:
        """What was settled over all purposes, `lost` and the clock included, by dimension."""
        return {name: from_units(name, self._spent(name)) for name in DIMENSIONS}

    def held(self) -> dict[str, float]:
        """What is reserved by open tickets, by dimension."""
        return {name: from_units(name, self._held(name)) for name in DIMENSIONS}

    def remaining(self) -> dict[str, float | None]:
        """What can still be reserved (limit - spent - held, at least 0); None where unlimited."""
        return {name: from_units(name, self._left(name)) if name in self._limits else None for name in DIMENSIONS}

    def by_purpose(self) -> dict[str, dict[str, float]]:
        """What was settled for each purpose, with `settled`, the number of settlements."""
        found: dict[str, dict[str, float]] = {}
        for purpose, amounts in sorted(self._totals.items()):
            found[purpose] = {"settled": amounts[0]} | {
                name: from_units(name, amounts[1 + i]) for i, name in enumerate(DIMENSIONS)
            }
        return found

    # The rest is for the run that owns this ledger.

    def replace_budget(self, budget: Budget) -> None:
        """Go on under other bounds. What was spent stays spent."""
        self._budget, self._limits = budget, budget.limits()

    def recover(self) -> dict[str, Any] | None:
        """Drop reservations left by a killed writer, counting their dollars as lost; says what was found, or None."""
        rows = self._desk.connection.execute(
            "SELECT id, step, purpose, amounts FROM reservations ORDER BY id"
        ).fetchall()
        if not rows:
            return None
        with self._desk.transaction():
            self._remember()
            usd = 0
            for _, _, _, amounts in rows:
                usd += loads(amounts).get("usd", 0)
            self._charge(LOST, {"usd": usd})
            self._desk.connection.execute("DELETE FROM reservations")
        steps = sorted({step for _, step, _, _ in rows if step is not None})
        return {"reservations": len(rows), "usd": from_units("usd", usd), "steps": steps}

    def write_clock(self) -> None:
        """Store the active time so far."""
        with self._desk.transaction():
            self._write_clock(force=True)

    def rolled_back(self) -> None:
        """The open transaction failed: go back to what is on disk."""
        if self._undo is not None:
            self._totals, self._tickets = self._undo
            self._undo = None

    def committed(self) -> None:
        self._undo = None

    def _check(self, asked: dict[str, int]) -> None:
        for name, amount in asked.items():
            if name not in self._limits:
                continue
            left = self._left(name)
            if amount > left or left == 0:
                held = self._held(name)
                raise OverBudget(
                    name,
                    asked=from_units(name, amount),
                    remaining=from_units(name, left),
                    held=from_units(name, held),
                    limit=from_units(name, self._limits[name]),
                )

    def _left(self, name: str) -> int:
        return max(0, self._limits[name] - self._spent(name) - self._held(name))

    def _held(self, name: str) -> int:
        return sum(ticket.amounts.get(name, 0) for ticket in self._tickets.values())

    def _spent(self, name: str) -> int:
        index = 1 + DIMENSIONS.index(name)
        total = sum(amounts[index] for amounts in self._totals.values())
        if name == "minutes":
            stored = self._totals[CLOCK][index] if CLOCK in self._totals else 0
            total += self._clock() - stored
        return total

    def _clock(self) -> int:
        if not self._desk.writable:
            return self._clock_before
        return self._clock_before + round((time.monotonic() - self._clock_start) * _MICRO_PER_SECOND)

    def _write_clock(self, *, force: bool) -> None:
        now = time.monotonic()
        if force or now - self._clock_written >= _CLOCK_PERIOD_S:
            self._remember()
            self._clock_written = now
            amounts = [0] * (1 + len(DIMENSIONS))
            amounts[1 + _MINUTES] = self._clock()
            self._put(CLOCK, amounts)

    def _close(self, ticket: Ticket) -> None:
        if self._tickets.get(ticket.id) is not ticket:
            raise UsageError(
                f"ticket {ticket.id} ({ticket.purpose}) is not open: settle or release each reservation exactly once"
            )
        self._remember()
        del self._tickets[ticket.id]
        if ticket.amounts.get("usd"):
            self._desk.connection.execute("DELETE FROM reservations WHERE id = ?", (ticket.id,))

    def _charge(self, purpose: str, units: dict[str, int]) -> None:
        amounts = list(self._totals.get(purpose, [0] * (1 + len(DIMENSIONS))))
        amounts[0] += 1
        for name, amount in units.items():
            amounts[1 + DIMENSIONS.index(name)] += amount
        self._put(purpose, amounts)

    def _put(self, purpose: str, amounts: list[int]) -> None:
        self._desk.connection.execute(_STORE, (purpose, *amounts))
        self._totals[purpose] = amounts

    def _remember(self) -> None:
        if self._undo is None:
            self._undo = (dict(self._totals), dict(self._tickets))
