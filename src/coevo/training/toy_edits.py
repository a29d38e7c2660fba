"""Edits of the toy world, drawn from a policy and seen as a recipe sees them: with its noise, its levels, its leak and its bonus."""

from __future__ import annotations

import hashlib
import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from coevo.evolution.types import Rejection
from coevo.training.settings import Recipe
from coevo.training.toy_records import Rollout, tokens_of
from coevo.training.toy_world import ACTIONS, Outcome, State, World, log_policy
from coevo.training.types import Sample, Scored


@dataclass(frozen=True)
class Edits:
    """What a recipe's policy does, and what the recipe sees of it."""

    recipe: Recipe

    @cached_property
    def world(self) -> World:
        return World(self.recipe.toy.leak)

    def rollouts(
        self,
        weights: np.ndarray,
        rng: np.random.Generator,
        state: State,
        group: str,
        count: int,
        *,
        place: State | None = None,
    ) -> tuple[Rollout, ...]:
        """`count` edits by the policy with `weights` in a state; `place`: another state of the world that looks like it to the policy."""
        logs = log_policy(weights, [state], self.recipe.episode.temperature)[0]
        chances = np.exp(logs)
        policy = _cumulated(chances / chances.sum())
        found, where = [], place or state
        name = hash_of(where.name)
        known: dict[int, tuple[tuple[Outcome, ...], list[float]]] = {}
        for sample in range(count):
            action = bisect_right(policy, rng.random())
            if action not in known:
                possible = self.world.outcomes(where, action)
                known[action] = possible, _cumulated([outcome.chance for outcome in possible])
            outcomes, cumulated = known[action]
            outcome = outcomes[bisect_right(cumulated, rng.random())]
            jitter, lost = float(rng.normal(0, 1)), float(rng.random()) < self.recipe.toy.unmeasured
            seen = None if lost else self._seen(where, name, ACTIONS[action], outcome.public, jitter)
            found.append(Rollout(where, group, sample, action, float(logs[action]), outcome.hidden, seen))
        return tuple(found)

    def with_bonus(self, scored: Scored, action: str) -> Scored:
        """What training is paid, the planted bonus included."""
        bonus = self.recipe.toy.bonus
        if not bonus or scored.reward is None:
            return scored
        paid = bonus if action == "pad" else 0.0
        return Scored(scored.reward + paid, {**scored.parts, "bonus": paid})

    def _seen(self, state: State, name: str, action: str, public: float | None, jitter: float) -> Sample:
        """What a reward sees of an edit."""
        parent = self._level(state.fitness)
        tokens = tokens_of(action)
        common: dict[str, Any] = {
            "parent_fitness": parent,
            "parent_correctness": parent,
            "parent_hash": name,
            "text": action,
            "tokens": tokens,
            "max_tokens": self.recipe.episode.max_tokens,
        }
        if action in ("junk", "copy"):
            rejection = Rejection.UNCHANGED if action == "copy" else Rejection.NO_CODE
            return Sample(fitness=None, contract_ok=False, rejection=rejection.value, **common)
        assert public is not None
        fitness = self._level(min(1.0, max(0.0, public + self.recipe.toy.noise * jitter)))
        source = f"def solve(case):\n    return {action.replace(' ', '_')}(case, {state.symptom}, {round(public, 3)})\n"
        return Sample(fitness=fitness, correctness=fitness, program_hash=hash_of(source), source=source, **common)

    def _level(self, fitness: float) -> float:
        levels = self.recipe.toy.levels
        if levels is None:
            return fitness
        return math.floor(fitness * (levels - 1) + 0.5) / (levels - 1) if levels > 1 else 0.5


def _cumulated(chances: Sequence[float] | np.ndarray) -> list[float]:
    """What `numpy.random.Generator.choice` searches a uniform number in: looked up by hand, the same draws take a tenth of the time."""
    found = np.cumsum(np.asarray(chances, dtype=np.float64))
    return (found / found[-1]).tolist()


def hash_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
