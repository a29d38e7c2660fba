"""Skills as values. Counters never live in a skill's folder: evidence is events of a lab's ledger, folded here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple


class SkillState(StrEnum):
    CANDIDATE = "candidate"
    """Imported or just written; nothing is believed of it."""
    VALIDATED = "validated"
    """Its cases hold: it fires where it should and is silent on near misses."""
    TRUSTED = "trusted"
    """Helped in at least one real run and two distinct contexts, more often than the placebo."""
    DEMOTED = "demoted"
    """A tombstone with its reason; never deleted, never offered."""


class Outcome(StrEnum):
    """What became of one use of a skill."""

    FIRED = "fired"
    APPLIED = "applied"
    HELPED = "helped"
    HURT = "hurt"
    INCONCLUSIVE = "inconclusive"
    INVALID = "invalid"


class Use(NamedTuple):
    """One line of a skill's evidence."""

    skill: str
    outcome: Outcome
    context: str
    """Domain and base model, say "code/mini": what counts as a distinct context."""
    lab: str
    round: int
    difference: float | None = None
    """In truth, child less parent."""
    control: float | None = None
    """The same for the placebo (or the plain continuation) of that round."""


@dataclass(frozen=True)
class Skill:
    """A skill folder that was read and found sound."""

    name: str
    description: str
    folder: Path
    digest: str
    """SHA-256 over its files."""
    metadata: Mapping[str, str] = field(default_factory=dict)
    sections: Mapping[str, str] = field(default_factory=dict)
    """Body of SKILL.md by heading."""

    @property
    def scope(self) -> tuple[str, ...]:
        """Domains it is for; empty: any."""
        return tuple(part.strip() for part in self.metadata.get("scope", "").split(",") if part.strip())


class Trigger(NamedTuple):
    """What scripts/trigger.py said of a diagnosis."""

    fires: bool
    why: str


class Patch(NamedTuple):
    """What scripts/apply.py would change: dotted recipe names to new values (null removes)."""

    sets: Mapping[str, Any]
    why: str = ""
