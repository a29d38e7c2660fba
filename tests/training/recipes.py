"""Recipes for tests: small, and honest in every part."""

from __future__ import annotations

from typing import Any

from coevo.config import parse
from coevo.training.settings import Recipe


def recipe(stage: Any, **changes: Any) -> Recipe:
    """The base recipe with whole sections or leaves replaced."""
    data: dict[str, Any] = {
        "base": str(stage.policy),
        "steps": 2,
        "groups": 2,
        "group_size": 6,
        "lr": 3e-3,
        "states": {"tasks": [str(stage.task)]},
        "episode": {"max_tokens": 40},
        "reward": {"parts": {"absolute": 1.0}},
        "pool": "inline",
        "engine": {"device": "cpu"},
    }
    return parse(Recipe, data | changes, where="test recipe")


OWN_SEARCHES: dict[str, Any] = {
    "mix": {"statement": 0.5, "policy": 0.5},
    "refresh": 4,
    "searches": 2,
    "search": {"steps": 4, "batch": 2, "islands": 1, "verify": False, "proposers": {"rewrite": 1.0}},
}
