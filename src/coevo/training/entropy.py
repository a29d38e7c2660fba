"""The entropy floor: a bonus that acts only while the policy's entropy is below a floor, and in proportion to the deficit.

A constant bonus is a gradient of its own, and on states where nothing improves it is the only one: it turns the policy into noise. A
floor is silent while the policy still explores.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from coevo.training.settings import EntropyConfig

MEMORY = 0.2
"""Weight of the newest step in the exponential mean of entropies."""


@dataclass(frozen=True)
class EntropyState:
    """The exponential mean of the policy's entropy in nats per token; None before the first step."""

    mean: float | None = None

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> EntropyState:
        return cls(None if row["mean"] is None else float(row["mean"]))


def observe(state: EntropyState, entropy: float) -> EntropyState:
    """After a step whose mean token entropy was `entropy`."""
    return EntropyState(entropy if state.mean is None else (1 - MEMORY) * state.mean + MEMORY * entropy)


def floor_at(config: EntropyConfig, step: int, steps: int) -> float | None:
    """The floor at step 1 ... `steps`: linear from `floor` to `final`; None when off."""
    if config.floor is None or config.final is None:
        return config.floor
    part = min(1.0, max(0.0, (step - 1) / (steps - 1))) if steps > 1 else 1.0
    return config.floor + part * (config.final - config.floor)


def coefficient(config: EntropyConfig, state: EntropyState, step: int, steps: int) -> float:
    """Of the entropy bonus at this step: `coefficient` * max(0, 1 - mean / floor); 0 when off, and before anything was observed."""
    floor = floor_at(config, step, steps)
    if not floor or state.mean is None:
        return 0.0
    return config.coefficient * min(1.0, max(0.0, 1 - state.mean / floor))
