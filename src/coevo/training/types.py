"""What rewards, advantages and filters are functions of. Plain values; nothing here executes anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from coevo.episodes.types import Sample


@dataclass(frozen=True)
class Scored:
    """A reward with its named parts (weighted, adding up to it), or why there is none."""

    reward: float | None
    parts: Mapping[str, float] = field(default_factory=dict)
    reason: str = ""
    """Where reward is None: "raised ValueError: ...", "not finite", "timed out", ... The sample is masked and counted."""


__all__ = ["Sample", "Scored"]
