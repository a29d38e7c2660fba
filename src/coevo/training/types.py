"""What rewards, advantages and filters are functions of. Plain values; nothing here executes anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Sample:
    """What a reward may look at of one reply (of one turn, where an episode has several). Never anything hidden.

    Fitness lies in [0, 1] for tested tasks. `fitness` is None where the reply held no program (`contract_ok` is False then).
    An unmeasured reply never becomes a Sample.
    """

    parent_fitness: float
    fitness: float | None
    correctness: float | None = None
    efficiency: float | None = None
    parent_correctness: float | None = None
    parent_efficiency: float | None = None
    contract_ok: bool = True
    """The reply could be parsed into a program."""
    rejection: str = ""
    """Value of `evolution.types.Rejection` where it could not."""
    program_hash: str = ""
    """By normal form: names of comments, spacing and such do not matter."""
    parent_hash: str = ""
    history: frozenset[str] = frozenset()
    """Program hashes of the attempts shown."""
    known: frozenset[str] = frozenset()
    """Program hashes of the archive."""
    text: str = ""
    source: str = ""
    """Of the program's main file; empty without one."""
    tokens: int = 0
    max_tokens: int = 0
    truncated: bool = False
    turn: int = 0
    outcomes: tuple[bool, ...] = ()
    """Public tests passed, in order."""
    extra: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Scored:
    """A reward with its named parts (weighted, adding up to it), or why there is none."""

    reward: float | None
    parts: Mapping[str, float] = field(default_factory=dict)
    reason: str = ""
    """Where reward is None: "raised ValueError: ...", "not finite", "timed out", ... The sample is masked and counted."""
