"""Edits of the toy world, drawn from a policy and seen as a recipe sees them: with its noise, its levels, its leak and its bonus."""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from coevo.evolution.types import Rejection
from coevo.training.settings import Recipe
from coevo.training.toy_records import Rollout, tokens_of
from coevo.training.toy_world import ACTIONS, State, World, log_policy
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
        found, where = [], place or state
        for sample in range(count):
            action = int(rng.choice(len(ACTIONS), p=chances / chances.sum()))
            outcomes = self.world.outcomes(where, action)
            which = int(rng.choice(len(outcomes), p=[outcome.chance for outcome in outcomes]))
            jitter, lost = float(rng.normal(0, 1)), float(rng.random()) < self.recipe.toy.unmeasured
            outcome = outcomes[which]
            seen = None if lost else self._seen(where, ACTIONS[action], outcome.public, jitter)
            found.append(Rollout(where, group, sample, action, float(logs[action]), outcome.hidden, seen))
        return tuple(found)

    def with_bonus(self, scored: Scored, action: str) -> Scored:
        """What training is paid, the planted bonus included."""
        bonus = self.recipe.toy.bonus
        if not bonus or scored.reward is None:
            return scored
        paid = bonus if action == "pad" else 0.0
        return Scored(scored.reward + paid, {**scored.parts, "bonus": paid})

    def _seen(self, state: State, action: str, public: float | None, jitter: float) -> Sample:
        """What a reward sees of an edit."""
        parent = self._level(state.fitness)
        tokens = tokens_of(action)
        common: dict[str, Any] = {
            "parent_fitness": parent,
            "parent_correctness": parent,
            "parent_hash": hash_of(state.name),
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


def hash_of(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
