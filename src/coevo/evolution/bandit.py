"""Which proposer gets the next step: Thompson sampling on gain per cost.

Each arm keeps discounted sums of gain (0..1 a pull), pulls and cost. A decision draws each arm's gain from
Beta(1 + gain, 1 + pulls - gain), multiplies by the configured weight, divides by the arm's mean cost, and takes the
largest. Drawing, rather than a deterministic bound, spreads the steps of one round, which are all decided from the same state.

Cost is nominal, never measured: 1 for a step plus `token_price` a token, so that a run is repeatable. A step that made no
candidate costs as much as one that did; a step that could not be measured says nothing and moves nothing.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

FORGET = 0.99
"""Discount of what an arm did before, per pull of that arm: what helped early need not help late."""

FLOOR = 0.1
"""Share of steps drawn by weight alone, so that an arm that had a bad start is looked at again."""


@dataclass
class Arm:
    gain: float = 0.0
    pulls: float = 0.0
    cost: float = 0.0

    @property
    def mean_cost(self) -> float:
        """Nominal cost of a pull; one fictitious pull at cost 1 keeps it finite before the first."""
        return (1.0 + self.cost) / (1.0 + self.pulls)


class Bandit:
    """State by proposer name, so that arms may come and go between two sessions of a run."""

    def __init__(self) -> None:
        self.arms: dict[str, Arm] = {}
        self._scale: dict[int, float] = {}

    def draw(self, rng: random.Random, weights: Mapping[str, float], *, learn: bool = True) -> str:
        """One name of `weights` (those above 0). Raises ValueError when there is none."""
        names = sorted(name for name, weight in weights.items() if weight > 0)
        if not names:
            raise ValueError("no proposer has a weight above 0")
        if len(names) == 1:
            return names[0]
        if not learn or rng.random() < FLOOR:
            return rng.choices(names, [weights[name] for name in names])[0]
        return max(names, key=lambda name: weights[name] * self._promise(name, rng))

    def _promise(self, name: str, rng: random.Random) -> float:
        arm = self.arms.get(name, Arm())
        lost = max(0.0, arm.pulls - arm.gain)
        return rng.betavariate(1.0 + arm.gain, 1.0 + lost) / arm.mean_cost

    def tell(self, name: str, *, gain: float, cost: float) -> None:
        """One measured pull: `gain` in 0..1 (0 for a failure or a rejection), nominal `cost` > 0."""
        arm = self.arms.setdefault(name, Arm())
        arm.gain = FORGET * arm.gain + gain
        arm.pulls = FORGET * arm.pulls + 1.0
        arm.cost = FORGET * arm.cost + cost

    def share(self, island: int, gain: float) -> float:
        """A fitness gain as a share (0..1) of the recent largest one on that island.

        The yardstick shrinks by 1% a gain, so that the small improvements of a late search count as the large ones of
        an early one did. The square root keeps one lucky jump from silencing all others.
        """
        if gain <= 0.0:
            return 0.0
        scale = max(gain, FORGET * self._scale.get(island, 0.0))
        self._scale[island] = scale
        return (gain / scale) ** 0.5


def nominal_cost(tokens: int, token_price: float) -> float:
    """Cost of a step in evaluations."""
    return 1.0 + token_price * tokens


def table(bandit: Bandit, names: Iterable[str]) -> dict[str, dict[str, float]]:
    """Per name: discounted pulls, mean gain, mean cost. For display."""
    rows: dict[str, dict[str, float]] = {}
    for name in names:
        arm = bandit.arms.get(name, Arm())
        rows[name] = {
            "pulls": round(arm.pulls, 3),
            "gain": round(arm.gain / arm.pulls, 6) if arm.pulls else 0.0,
            "cost": round(arm.mean_cost, 6),
        }
    return rows
