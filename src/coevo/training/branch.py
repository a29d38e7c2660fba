"""What a branch changed, and proof that it took effect.

A recipe's fields are promises; what counts is what the step did. The first step of every run is held against its recipe by what can be
seen from outside: the rate that the optimizer says it applied, the rows' temperature, the groups' sizes, the names of the reward's
parts. (The classic trap: a trainer restores the optimizer's state, and the old learning rate with it.)
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from coevo.config import Config, leaves
from coevo.errors import GateBlocked


class Change(NamedTuple):
    """One leaf of a recipe that differs."""

    field: str
    old: Any
    new: Any

    def __str__(self) -> str:
        return f"{self.field}: {self.old!r} -> {self.new!r}"


def changes(old: Config, new: Config) -> list[Change]:
    """Leaves in which two configs of one class differ, by dotted name. A leaf that one side lacks is None there."""
    before, after = dict(leaves(old.model_dump(mode="json"))), dict(leaves(new.model_dump(mode="json")))
    names = [*before, *(name for name in after if name not in before)]
    return [Change(n, before.get(n), after.get(n)) for n in names if before.get(n) != after.get(n)]


def require_effect(expected: Mapping[str, Any], seen: Mapping[str, Any], *, changed: Mapping[str, Any]) -> None:
    """Raise `GateBlocked` if a value that a step showed is not the recipe's. `changed` (of a branch) says what each was before."""
    for name, value in expected.items():
        if name not in seen or _equal(value, seen[name]):
            continue
        was = f" (this branch changed it from {changed[name]!r})" if name in changed else ""
        raise GateBlocked(
            f"the recipe's {name} = {value!r}{was} did not take effect: the first step shows {seen[name]!r}. Its results would "
            "not be this recipe's, so the run was ended; the weights of the step are not kept"
        )


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, float | int) and isinstance(b, float | int):
        return math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-12)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(map(_equal, a, b))
    return a == b
