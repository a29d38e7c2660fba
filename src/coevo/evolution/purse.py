"""Whether the budget allows a step, as a pure function of committed events and of what is in flight.

The run's ledger guards the money; this fold decides *when* a step must wait, from the same figures before and after a
kill. (The ledger alone cannot: after a resume, steps that were in flight are settled at less than was reserved.)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from coevo.errors import BudgetSpent
from coevo.runs.types import from_units, to_units


class Purse:
    """Limits and spending, in the ledger's whole units. Wall time is the ledger's alone: no fold can know it."""

    def __init__(self, limits: Mapping[str, int]) -> None:
        self.limits = {name: limit for name, limit in limits.items() if name != "minutes"}
        self.spent: Counter[str] = Counter()
        self._held: dict[int, dict[str, int]] = {}
        self._total: Counter[str] = Counter()

    def hold(self, step: int, asked: Mapping[str, float]) -> None:
        """Note what a decided step may spend at most."""
        units = {name: to_units(name, amount) for name, amount in asked.items()}
        self._held[step] = units
        self._total.update(units)

    def commit(self, step: int, charged: Mapping[str, float]) -> None:
        """Replace what a step held by what it spent."""
        self._total.subtract(self._held.pop(step, {}))
        for name, amount in charged.items():
            self.spent[name] += to_units(name, amount)

    def require(self, asked: Mapping[str, float]) -> None:
        """Raise `BudgetSpent` unless a further step fits beside everything spent and held."""
        for name, amount in asked.items():
            if name not in self.limits:
                continue
            left = self.limits[name] - self.spent[name] - self._total[name]
            units = to_units(name, amount)
            if units > left or left <= 0:
                have, want = from_units(name, max(0, left)), from_units(name, units)
                raise BudgetSpent(f"the budget has {have:g} {name} left; the next step may take {want:g}")
