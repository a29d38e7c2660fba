"""The world of trainer `toy`: a few states, a few edits, and for each the exact distribution of what comes of it.

A state is a program with a symptom (what its feedback would show) and a fitness. The policy picks one of `ACTIONS`. For each symptom one fix
is right, which the policy can learn; the others nearly always break something. `bold` rarely works and then gains most, so it is worth more to
a search that keeps the best of many than to one that tries once. `copy` hands the parent back; `hack` hard-codes the public tests; `pad` writes much
and changes nothing; `junk` holds no program.

Since all outcomes are known, so is the true ability of any policy: `World.ability`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

SYMPTOMS = 4
FITNESS = (0.2, 0.5, 0.8)
ACTIONS = (*(f"fix {i}" for i in range(SYMPTOMS)), "bold", "copy", "hack", "pad", "junk")
FEATURES = SYMPTOMS + len(FITNESS)

_RIGHT_FIX = (0.9, 0.5)
"""Chance that the right fix works: 0.9 - 0.5 * fitness. Late states are harder."""
_WRONG_FIX = 0.05
_FIXED, _BOLD = 0.5, 0.9
"""Share of the headroom that a fix and a bold edit gain."""
_BOLD_CHANCE = 0.1
_BROKEN = 0.6
"""Factor on the fitness of what a failed fix leaves. A failed bold edit leaves 0."""
_HACKED = 0.5
"""Factor on the true fitness of a program that hard-codes the public tests."""


@dataclass(frozen=True)
class State:
    index: int
    symptom: int
    fitness: float

    @property
    def name(self) -> str:
        """Of the task in evidence rows."""
        return f"toy:symptom={self.symptom},fitness={self.fitness:g}"


class Outcome(NamedTuple):
    """What may come of an action, before anything is measured."""

    chance: float
    public: float | None
    """Fitness on public tests; None without a program."""
    hidden: float
    """True fitness."""


STATES = tuple(State(i * len(FITNESS) + j, i, fitness) for i in range(SYMPTOMS) for j, fitness in enumerate(FITNESS))


@dataclass(frozen=True)
class World:
    """Outcomes of every action in every state. `leak`: see `ToyConfig`."""

    leak: float = 0.0

    def outcomes(self, state: State, action: int) -> tuple[Outcome, ...]:
        """With chances that add up to 1."""
        f, name = state.fitness, ACTIONS[action]
        headroom = 1 - f
        if name.startswith("fix"):
            chance = _RIGHT_FIX[0] - _RIGHT_FIX[1] * f if action == state.symptom else _WRONG_FIX
            return _either(chance, f + _FIXED * headroom, _BROKEN * f)
        if name == "bold":
            return _either(_BOLD_CHANCE, f + _BOLD * headroom, 0.0)
        if name == "hack":
            return (Outcome(1.0, f + self.leak * headroom, _HACKED * f),)
        return (Outcome(1.0, None if name == "junk" else f, 0.0 if name == "junk" else f),)

    def ability(self, probabilities: np.ndarray, k: int = 1) -> float:
        """Expected true gain of a search that keeps the best of `k` edits, or its parent: exact, averaged over the states.

        `probabilities` is (states, actions). In one state the gain max(0, hidden - fitness) of one edit has a known distribution F over
        few values v, so E[max of k] = sum of v * (F(v)^k - F(v-)^k).
        """
        total = 0.0
        for state, row in zip(STATES, probabilities, strict=True):
            chances: dict[float, float] = {}
            for action, p in enumerate(row):
                for outcome in self.outcomes(state, action):
                    gain = max(0.0, outcome.hidden - state.fitness)
                    chances[gain] = chances.get(gain, 0.0) + float(p) * outcome.chance
            below = 0.0
            for gain in sorted(chances):
                upto = min(1.0, below + chances[gain])
                total += gain * (upto**k - below**k)
                below = upto
        return total / len(STATES)

    @cached_property
    def best_ability(self) -> float:
        """`ability` of the best policy for one edit: the best action in every state."""
        choices = np.zeros((len(STATES), len(ACTIONS)))
        for state in STATES:
            gains = [
                sum(o.chance * max(0.0, o.hidden - state.fitness) for o in self.outcomes(state, a))
                for a in range(len(ACTIONS))
            ]
            choices[state.index, int(np.argmax(gains))] = 1.0
        return self.ability(choices)


def features(states: Sequence[State]) -> np.ndarray:
    """(states, FEATURES): one-hot symptom, then one-hot level of fitness."""
    found = np.zeros((len(states), FEATURES))
    for row, state in enumerate(states):
        found[row, state.symptom] = 1.0
        found[row, SYMPTOMS + FITNESS.index(state.fitness)] = 1.0
    return found


def log_policy(weights: np.ndarray, states: Sequence[State], temperature: float = 1.0) -> np.ndarray:
    """Log-probabilities of the actions, (states, actions), of a softmax policy with weights (FEATURES, actions)."""
    logits = features(states) @ weights / temperature
    logits = logits - logits.max(axis=1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))


def _either(chance: float, better: float, worse: float) -> tuple[Outcome, ...]:
    return Outcome(chance, better, better), Outcome(1 - chance, worse, worse)
