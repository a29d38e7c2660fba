"""Edits of the toy world are looked up by hand: the draws are those of `numpy.random.Generator.choice`."""

from __future__ import annotations

import numpy as np

from coevo.streams import array_stream
from coevo.training.settings import Recipe
from coevo.training.toy_edits import Edits
from coevo.training.toy_world import ACTIONS, FEATURES, STATES, log_policy


def test_rollouts_draw_as_choice_does() -> None:
    recipe = Recipe.model_validate({"trainer": "toy", "toy": {"leak": 0.6, "unmeasured": 0.1}})
    edits = Edits(recipe)
    weights = array_stream(5, "weights").normal(0, 2, (FEATURES, len(ACTIONS)))
    for state in STATES:
        rng = array_stream(5, "edits", state.index)
        chances = np.exp(log_policy(weights, [state], recipe.episode.temperature)[0])
        for rollout in edits.rollouts(weights, array_stream(5, "edits", state.index), state, "g", 50):
            action = int(rng.choice(len(ACTIONS), p=chances / chances.sum()))
            outcomes = edits.world.outcomes(state, action)
            which = int(rng.choice(len(outcomes), p=[outcome.chance for outcome in outcomes]))
            rng.normal(0, 1)
            lost = float(rng.random()) < recipe.toy.unmeasured
            assert (rollout.action, rollout.hidden) == (action, outcomes[which].hidden)
            assert (rollout.seen is None) == lost
