"""Learning rates by step."""

from __future__ import annotations

import math

from coevo.training.settings import Recipe


def lr_at(recipe: Recipe, step: int) -> float:
    """The learning rate of optimizer step `step` (from 1).

    Linear warm-up reaches `lr` at step `warmup`; then `constant`, or down to a tenth of `lr` at the last step: `linear`, or by
    half a `cosine`. A step past the recipe's last has the last one's rate.
    """
    if step <= recipe.warmup:
        return recipe.lr * step / recipe.warmup
    span = recipe.steps - recipe.warmup
    done = min(1.0, (step - recipe.warmup) / span) if span > 0 else 1.0
    match recipe.schedule:
        case "constant":
            return recipe.lr
        case "linear":
            return recipe.lr * (1 - (1 - FLOOR) * done)
        case "cosine":
            return recipe.lr * (FLOOR + (1 - FLOOR) * (1 + math.cos(math.pi * done)) / 2)


FLOOR = 0.1
"""What `linear` and `cosine` leave of the rate at the last step."""
