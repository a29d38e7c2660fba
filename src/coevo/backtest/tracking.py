"""Do backtests predict? Each one stores a number (`prediction`); what came of the change is known later. This holds one against the other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

from coevo.backtest.separation import rank_correlation

FEW = 4
"""With fewer pairs there is no interval."""


class Tracking(NamedTuple):
    """How well predictions rank outcomes."""

    pairs: int
    rho: float | None
    """Spearman's; None for fewer than three pairs, or where either side never varies."""
    low: float | None
    """95 % interval."""
    high: float | None
    note: str

    def to_dict(self) -> dict[str, Any]:
        return self._asdict()


def track(pairs: Sequence[tuple[float | None, float | None]], *, z: float = 1.96) -> Tracking:
    """Spearman's correlation of (prediction, outcome) pairs; pairs with a None or NaN are left out.

    Interval: Fisher's z with the standard error sqrt((1 + rho^2 / 2) / (n - 3)) of Bonett and Wright (2000, Psychometrika 65), approximate for small n.
    """
    known = [
        (float(a), float(b))
        for a, b in pairs
        if a is not None and b is not None and math.isfinite(a) and math.isfinite(b)
    ]
    n = len(known)
    rho = rank_correlation([a for a, _ in known], [b for _, b in known])
    if rho is None:
        return Tracking(n, None, None, None, f"{n} pairs tell nothing yet" if n < 3 else "one side never varies")
    if n < FEW:
        return Tracking(n, rho, None, None, f"{n} pairs give no interval; {FEW} are the least")
    nearest = 1 - 12 / (n * (n * n - 1))  # A single swap of neighbours: from a perfect order no error can be read off.
    used = max(-nearest, min(nearest, rho))
    half = z * math.sqrt((1 + used * used / 2) / (n - 3))
    low = -1.0 if rho <= -1 else math.tanh(math.atanh(used) - half)
    high = 1.0 if rho >= 1 else math.tanh(math.atanh(used) + half)
    verdict = "backtests say something" if low > 0 else "backtests mislead" if high < 0 else "not known yet"
    return Tracking(n, rho, low, high, f"{verdict}: rho {rho:.2f} [{low:.2f}, {high:.2f}] over {n} changes")
