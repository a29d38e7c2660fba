"""What a step shows of its recipe from outside: kept with every step, and held against the recipe at the first (`coevo.training.branch`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from coevo.engines.types import Row
from coevo.training.batch import Group
from coevo.training.schedule import lr_at
from coevo.training.settings import Recipe
from coevo.training.updates import Update


def of_batch(groups: Sequence[Group]) -> dict[str, Any]:
    """By the groups of the first round of sampling."""
    first = [group for group in groups if group.round == 0]
    rollouts = [rollout for group in first for rollout in group.rollouts]
    parts = {name for g in first for row in g.scored for one in row if one is not None for name in one.parts}
    found: dict[str, Any] = {"groups": len(first)}
    if rollouts:
        found["group_size"] = len(first[0].rollouts)
        found["episode.temperature"] = rollouts[0].temperature
    if parts:
        found["reward.parts"] = sorted(parts)
    return found


def of_update(result: Update, rows: Sequence[Row] = ()) -> dict[str, Any]:
    """By what the optimizer says, and what the engine was handed."""
    if not result.passes:
        return {}
    found: dict[str, Any] = {"epochs": len(result.passes)}
    if applied := [step.lr for _, step in result.passes if step.applied]:
        found["lr"] = applied[0]
    if result.loss is not None:
        found |= {f"loss.{name}": getattr(result.loss, name) for name in _LOSS}
    first = result.passes[0][0]
    if rows and not first.skipped:
        found["trained tokens"] = first.tokens
    return found


def expected(recipe: Recipe, step: int, rows: Sequence[Row]) -> dict[str, Any]:
    """What a step of this recipe must show."""
    return {
        "groups": recipe.groups,
        "group_size": recipe.group_size,
        "episode.temperature": recipe.episode.temperature,
        "reward.parts": sorted(recipe.reward.parts),
        "epochs": recipe.epochs,
        "lr": lr_at(recipe, step),
        "trained tokens": sum(sum(row.trained) for row in rows),
        **{f"loss.{name}": getattr(recipe.loss, name) for name in _LOSS},
    }


_LOSS = ("name", "clip_low", "clip_high", "ratio_cap", "kl", "kl_estimator", "reference")
