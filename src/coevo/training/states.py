"""Where the groups of each step start: the mix of sources, by exact shares, in an order that is a function of the seed alone.

The group number g (counted over all steps) tells the source, and how often that source had its turn before tells the state: every
state of a fixed source comes once before any comes again, each time round in another order. So there is nothing to keep for resume.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from coevo.episodes.types import Source, StartState
from coevo.errors import ConfigError
from coevo.streams import array_stream, stream
from coevo.training.settings import StatesConfig


class Shares:
    """Turns of several names by given shares: after any number of turns, each name's count is within 1 of its share.

    The name that lags most has the next turn (the earlier one of equals), so a longer sequence begins like a shorter one.
    """

    def __init__(self, weights: Mapping[Any, float]) -> None:
        total = sum(weights.values())
        self._shares = {name: weight / total for name, weight in weights.items() if weight > 0}
        self._turns: list[tuple[str, int]] = []
        self._counts = dict.fromkeys(self._shares, 0)

    def turn(self, number: int) -> tuple[str, int]:
        """Whose turn `number` (from 0) is, and how many turns that name had before."""
        while len(self._turns) <= number:
            n = len(self._turns) + 1
            name = max(self._shares, key=lambda one: self._shares[one] * n - self._counts[one])
            self._turns.append((name, self._counts[name]))
            self._counts[name] += 1
        return self._turns[number]


@dataclass(frozen=True)
class PolicyState:
    """A start state that the policy itself reached in a search."""

    state: StartState
    early: bool
    """It came up in the first half of its search."""


class States:
    """All sources of a run. What it returns is a function of its arguments, the seed and the newest policy states."""

    def __init__(self, config: StatesConfig, *, seed: int, fixed: Mapping[Source, Sequence[StartState]]) -> None:
        """`fixed` holds the states of every source in the mix but `policy`. Raises `ConfigError` for a source that has none."""
        self._config, self._seed = config, seed
        self._fixed = {source: tuple(states) for source, states in fixed.items()}
        self._mix = Shares(config.mix)
        self._halves = Shares({"early": config.early, "late": 1 - config.early})
        self._policy: tuple[PolicyState, ...] = ()
        for name, weight in config.mix.items():
            if weight > 0 and name != Source.POLICY and not self._fixed.get(Source(name)):
                raise ConfigError(
                    f"states.mix gives {name!r} a share of {weight:g}, but there is not one such state. {_ADVICE[Source(name)]}"
                )

    @property
    def digest(self) -> str:
        """SHA-256 over the fixed sources: resume refuses other data."""
        total = hashlib.sha256()
        for source in sorted(self._fixed):
            for state in self._fixed[source]:
                total.update(f"{source}\x1f{state.id}\n".encode())
        return total.hexdigest()

    @property
    def counts(self) -> dict[str, int]:
        """States by source."""
        return {source.value: len(states) for source, states in self._fixed.items()}

    @property
    def uses_policy(self) -> bool:
        return self._config.mix.get("policy", 0) > 0

    def refresh(self, found: Iterable[PolicyState]) -> None:
        """Take in what new searches of the policy reached; the oldest beyond `pool` go."""
        self._policy = (*found, *self._policy)[: self._config.pool]

    def draw(self, step: int, groups: int) -> list[StartState]:
        """The states of a step's groups (steps count from 1)."""
        first = (step - 1) * groups
        return [self._nth(*self._mix.turn(first + i)) for i in range(groups)]

    def redraw(self, step: int, round: int, index: int, source: Source) -> StartState:
        """Another state of the same source, for group `index` whose first one was dropped (round 1, 2, ...)."""
        rng = stream(self._seed, "redraw", step, round, index)
        if source is Source.POLICY:
            half = "early" if rng.random() < self._config.early else "late"
            return rng.choice(self._half(half)).state
        return rng.choice(self._fixed[source])

    def _nth(self, name: str, number: int) -> StartState:
        source = Source(name)
        if source is Source.POLICY:
            half, turn = self._halves.turn(number)
            choices = self._half(half)
            return stream(self._seed, "policy-state", half, turn).choice(choices).state
        states = self._fixed[source]
        lap, place = divmod(number, len(states))
        order = array_stream(self._seed, "order", name, lap).permutation(len(states))
        return states[int(order[place])]

    def _half(self, half: str) -> Sequence[PolicyState]:
        chosen = [one for one in self._policy if one.early == (half == "early")] or self._policy
        if not chosen:
            raise ConfigError(
                "states.mix asks for the policy's own states, but its searches reached none: not one start program could be "
                "measured. Try one with `coevo evaluate`"
            )
        return chosen


def thinned(states: Iterable[StartState], *, limit: int, seed: int, name: str) -> list[StartState]:
    """At most `limit` of them, each as likely as any other, in their order: reservoir sampling (Vitter 1985, algorithm R)."""
    kept: list[tuple[int, StartState]] = []
    rng = stream(seed, "thin", name)
    for number, state in enumerate(states):
        if number < limit:
            kept.append((number, state))
        elif (place := rng.randrange(number + 1)) < limit:
            kept[place] = (number, state)
    return [state for _, state in sorted(kept, key=lambda pair: pair[0])]


_ADVICE = {
    Source.STATEMENT: "Name tasks in states.tasks",
    Source.SYNTH: "Name folders made by `coevo synth` in states.trajectories",
    Source.SEARCH: "Name folders made by `coevo synth --from RUN` in states.trajectories, or run folders in states.runs",
}
