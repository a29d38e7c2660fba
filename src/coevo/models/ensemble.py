"""Several models with weights: which one answers is a pure function of the random stream, so a search can record it."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

from coevo.errors import ConfigError
from coevo.models.types import Model


def choose(weights: Sequence[float], rng: random.Random) -> int:
    """An index with probability in proportion to its weight; takes one draw from `rng`. Weights are finite and not negative,
    with a positive sum, else `ConfigError`."""
    total = math.fsum(weights)
    if not weights or not all(math.isfinite(w) and w >= 0 for w in weights) or not 0 < total < math.inf:
        raise ConfigError(f"weights of models must be finite, not negative, and not all zero: {list(weights)}")
    point, below = rng.random() * total, 0.0
    for index, weight in enumerate(weights):
        below += weight
        if point < below:
            return index
    return max(index for index, weight in enumerate(weights) if weight > 0)


class Ensemble:
    """Models by name. Two of the same name (other settings) become `name` and `name#2`."""

    def __init__(self, models: Sequence[Model], weights: Sequence[float]) -> None:
        if len(models) != len(weights):
            raise ConfigError(f"{len(models)} models and {len(weights)} weights; each model takes one")
        self.models = tuple(models)
        self.weights = tuple(weights)
        choose(self.weights, random.Random(0))
        self.names = _distinct([model.name for model in models])

    def pick(self, rng: random.Random) -> int:
        """The index of the model that answers."""
        return choose(self.weights, rng)

    def __getitem__(self, index: int) -> Model:
        return self.models[index]

    def __len__(self) -> int:
        return len(self.models)

    def close(self) -> None:
        """Close them all, whatever one of them raises."""
        errors: list[Exception] = []
        for model in self.models:
            try:
                model.close()
            except Exception as e:
                errors.append(e)
        if errors:
            raise errors[0]


def _distinct(names: Sequence[str]) -> tuple[str, ...]:
    seen: dict[str, int] = {}
    result: list[str] = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        result.append(name if seen[name] == 1 else f"{name}#{seen[name]}")
    return tuple(result)
