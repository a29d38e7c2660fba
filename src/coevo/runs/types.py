"""Values of the run store: events, budgets, tickets. Nothing here touches a disk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import StrEnum
from typing import Any, NamedTuple

from pydantic import Field

from coevo.config import Config, parse
from coevo.errors import BudgetSpent, ConfigError, UsageError

DIMENSIONS = ("evaluations", "proposals", "tokens", "usd", "minutes", "cpu_minutes")
"""What a budget can bound, in the order in which it is shown."""

SCALE: Mapping[str, int] = {
    "evaluations": 1,
    "proposals": 1,
    "tokens": 1,
    "usd": 10**9,
    "minutes": 10**6,
    "cpu_minutes": 10**9,
}
"""Amounts are kept as whole multiples of 1 / SCALE, so that sums do not depend on the order of settling."""

CLOCK = "clock"
"""Purpose under which a run's own active time (`minutes`) is kept."""

LOST = "lost"
"""Purpose under which dollars are counted that a killed process had reserved and may have spent."""


class State(StrEnum):
    """What became of a run."""

    RUNNING = "running"
    """A process holds the writer's lock."""
    FINISHED = "finished"
    STOPPED = "stopped"
    """Ended before its goal, by a user, a budget or an error; `reason` says which."""
    INTERRUPTED = "interrupted"
    """The last writer ended without a word: killed, or the machine went down."""


class Event(NamedTuple):
    """One row of the append-only truth. `ts` is seconds since 1970; `step` is None for what belongs to no step."""

    id: int
    ts: float
    step: int | None
    kind: str
    payload: dict[str, Any]


class Budget(Config):
    """Upper bounds of a run; None is unlimited. Each is an amount of work, summed over all resumes."""

    evaluations: int | None = Field(default=None, ge=1, le=10**15)
    """Programs judged."""
    proposals: int | None = Field(default=None, ge=1, le=10**15)
    """Children asked for, of models and operators."""
    tokens: int | None = Field(default=None, ge=1, le=10**15)
    """Model tokens, prompt and completion together."""
    usd: float | None = Field(default=None, ge=1e-6, le=10**9)
    """Dollars charged by endpoints."""
    minutes: float | None = Field(default=None, ge=1e-6, le=10**9)
    """Wall minutes in which the run was open for writing."""
    cpu_minutes: float | None = Field(default=None, ge=1e-6, le=10**9)
    """CPU minutes spent inside candidates."""

    def limits(self) -> dict[str, int]:
        """The bounds that are set, in whole units of 1 / SCALE."""
        given = {name: getattr(self, name) for name in DIMENSIONS}
        return {name: to_units(name, value) for name, value in given.items() if value is not None}

    def __str__(self) -> str:
        given = {name: getattr(self, name) for name in DIMENSIONS if getattr(self, name) is not None}
        return ",".join(f"{name}={value:g}" if SCALE[name] > 1 else f"{name}={value}" for name, value in given.items())


def parse_budget(text: str) -> Budget:
    """Read `evaluations=200,tokens=1e6,usd=0.5,minutes=2`; the empty text is the unlimited budget.

    Raises `ConfigError` that names the part, its value and what is allowed.
    """
    found: dict[str, float] = {}
    for part in filter(None, (piece.strip() for piece in text.split(","))):
        name, sep, raw = (piece.strip() for piece in part.partition("="))
        if not sep or not raw:
            raise ConfigError(f"budget part {part!r} must be NAME=NUMBER, as in evaluations=200")
        if name not in DIMENSIONS:
            near = get_close_matches(name, DIMENSIONS, n=1)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            raise ConfigError(f"unknown budget {name!r}.{hint} Known: {', '.join(DIMENSIONS)}")
        if name in found:
            raise ConfigError(f"budget {name!r} is given twice; give it once")
        try:
            found[name] = int(raw) if raw.isdecimal() else float(raw)
        except ValueError:
            raise ConfigError(f"budget {name}={raw!r} is not a number; write for example {name}=200") from None
    return parse(Budget, found, where="budget")


def to_units(dimension: str, amount: float) -> int:
    """An amount in whole units of 1 / SCALE. Raises `UsageError` for what cannot be an amount of this dimension."""
    if dimension not in SCALE:
        raise UsageError(f"unknown budget dimension {dimension!r}; known: {', '.join(DIMENSIONS)}")
    if not 0 <= amount <= 10**15:
        raise UsageError(f"{dimension} = {amount!r} is not an amount; it must be a number from 0 to 1e15")
    scaled = amount * SCALE[dimension]
    if SCALE[dimension] == 1 and scaled != int(scaled):
        raise UsageError(f"{dimension} = {amount!r} must be a whole number")
    return round(scaled)


def from_units(dimension: str, units: int) -> float:
    """The amount in its natural unit; whole for counts."""
    return units if SCALE[dimension] == 1 else units / SCALE[dimension]


@dataclass(frozen=True)
class Ticket:
    """A reservation: `amounts` (in units of 1 / SCALE) are held until it is settled or released."""

    id: int
    purpose: str
    step: int | None
    amounts: Mapping[str, int] = field(default_factory=dict)


class OverBudget(BudgetSpent):
    """`BudgetSpent` with its figures, in natural units.

    `held` is what work in flight still holds of the dimension: when it is positive, waiting for that work to be
    settled may free enough; when it is zero, the budget is spent.
    """

    def __init__(self, dimension: str, *, asked: float, remaining: float, held: float, limit: float) -> None:
        self.dimension, self.asked, self.remaining = dimension, asked, remaining
        self.held, self.limit = held, limit
        held_text = f" ({held:g} more held by work in flight)" if held else ""
        need = f"does not allow this: asked {asked:g}, remaining {remaining:g}{held_text}" if asked else "is spent"
        super().__init__(
            f"budget {dimension}={limit:g} {need}. "
            f"Nothing was started; go on with a larger budget, as in --budget {dimension}={limit * 2:g}"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return _over_budget, (self.dimension, self.asked, self.remaining, self.held, self.limit)


def _over_budget(dimension: str, asked: float, remaining: float, held: float, limit: float) -> OverBudget:
    return OverBudget(dimension, asked=asked, remaining=remaining, held=held, limit=limit)
