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


class Origin(StrEnum):
    """Who wrote a skill, as we know it, not as it claims."""

    SHIPPED = "shipped"
    """Byte for byte one of coevo's own."""
    AUTO = "auto"
    """Written by a lab from an intervention that held."""
    IMPORTED = "imported"
    """By anyone else."""


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
    files: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    """Its texts by path in the folder, as they were read: what runs is what was checked."""

    @property
    def scope(self) -> tuple[str, ...]:
        """Domains it is for; empty: any."""
        return tuple(part.strip() for part in self.metadata.get("scope", "").split(",") if part.strip())


class Fault(StrEnum):
    """How a script failed to answer."""

    CRASHED = "crashed"
    """It ended with an exit code other than 0, or by a signal."""
    SLOW = "slow"
    """It did not end in time."""
    TOO_LONG = "too long"
    """It printed too much."""
    NOT_JSON = "not json"
    MALFORMED = "malformed"
    """JSON, and not of the agreed shape."""
    MISSING = "missing"
    """The skill has no such script."""
    INFRASTRUCTURE = "infrastructure"
    """The machine failed. The skill is not to blame."""


class Failure(NamedTuple):
    """A script that did not answer."""

    fault: Fault
    message: str

    def __str__(self) -> str:
        return f"{self.fault}: {self.message}"


class Trigger(NamedTuple):
    """What scripts/trigger.py said of a diagnosis."""

    fires: bool
    why: str
    failure: Failure | None = None
    """Set when it did not answer; then it does not fire."""


class Patch(NamedTuple):
    """What a skill would change: dotted recipe names to new values (null: back to the default, or, of a mapping's key, out of it)."""

    sets: Mapping[str, Any]
    why: str = ""
    files: Mapping[str, str | None] = {}
    """Harness files by path -> new text; null removes."""
    failure: Failure | None = None
    """Set when the script did not answer; then there is nothing to change."""

    @property
    def empty(self) -> bool:
        return not (self.sets or self.files)


class Verification(NamedTuple):
    """What scripts/verify.py said of a branch that used the skill."""

    word: Outcome
    """helped, hurt, inconclusive; invalid when the script itself is broken."""
    reason: str
    failure: Failure | None = None
