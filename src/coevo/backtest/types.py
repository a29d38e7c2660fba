"""Values that several files of this room share."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

from coevo.diagnostics.types import Level
from coevo.evidence.types import Frame


class Known(StrEnum):
    """What became of a branch, as far as it is known."""

    GOOD = "good"
    """Promoted, or found sound by every check."""
    BAD = "bad"
    """Invalid, or certainly worse than its parent."""
    UNKNOWN = "unknown"


def known_of(verdict: str, *, high: float | None = None) -> Known:
    """From a gate's verdict. `high`: upper end of the interval of (child - parent); a rejection says "bad" only where that is below 0:
    a child that is merely no better is neither sick nor a proof of health."""
    if verdict == "promoted":
        return Known.GOOD
    if verdict == "invalid" or (verdict == "rejected" and high is not None and high < 0):
        return Known.BAD
    return Known.UNKNOWN


@dataclass(frozen=True)
class Past:
    """A branch of which the outcome is known (or not), with its evidence."""

    name: str
    frame: Frame
    """Its training rollouts."""
    known: Known = Known.UNKNOWN
    why: str = ""
    """The verdict and its reason, for the table."""
    baseline: Frame | None = None
    """Of its parent, for diagnostics that need one."""


class Entry(NamedTuple):
    """One branch in the table of a diagnostic: its birth certificate is made of these."""

    branch: str
    known: Known
    value: float | None
    level: Level
    why: str = ""
    """Why there is no value, or what was seen."""

    def to_dict(self) -> dict[str, Any]:
        return {**self._asdict(), "known": str(self.known), "level": str(self.level)}


class Proposed(Protocol):
    """A diagnostic as data; `coevo.lab.types.DiagnosticProposal` is one."""

    @property
    def id(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def formula(self) -> str: ...
    @property
    def means(self) -> str: ...
    @property
    def warn(self) -> float: ...
    @property
    def critical(self) -> float: ...
    @property
    def source_code(self) -> str:
        """Python that defines `measure(columns) -> float`; or empty."""
        ...

    @property
    def term(self) -> str:
        """A term of the grammar; or empty."""
        ...
