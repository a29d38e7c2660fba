"""What a search hands to its proposers and gets back. Plain, picklable values."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from coevo.programs import Program


@dataclass(frozen=True)
class Attempt:
    """A program and how it did: what a prompt shows of a parent, an inspiration or an earlier try."""

    program: Program
    fitness: float | None
    correctness: float | None = None
    efficiency: float | None = None
    speedup: float | None = None
    score: float | None = None
    feedback: str = ""


class Edit(StrEnum):
    """How a child was made."""

    START = "start"
    REWRITE = "rewrite"
    DIFF = "diff"
    CROSSOVER = "crossover"
    """By a model, from two parents."""
    WRITE = "write"
    """By a model, from the statement alone: no current program is shown."""
    TUNE = "tune"
    """Numeric constants moved by an optimiser."""
    MUTATE = "mutate"
    """Syntax-tree mutation."""
    SPLICE = "splice"
    """Syntax-tree crossover of two parents."""


class Rejection(StrEnum):
    """Why a reply (or an operator) made no child. Recorded as an outcome and shown in the next prompt."""

    EMPTY = "empty"
    REFUSAL = "refusal"
    NO_CODE = "no_code"
    """Prose only: no complete fenced block, or no SEARCH/REPLACE block."""
    TRUNCATED = "truncated"
    """A fence or an edit block that never closes."""
    MALFORMED = "malformed"
    """Markers out of order, a second separator, only one of two EVOLVE-BLOCK markers."""
    NO_MATCH = "no_match"
    AMBIGUOUS = "ambiguous"
    OVERLAP = "overlap"
    OUTSIDE_BLOCK = "outside_block"
    """The edit touches text outside the EVOLVE-BLOCK."""
    UNKNOWN_FILE = "unknown_file"
    SYNTAX = "syntax"
    """The result is not valid Python."""
    BAD_TEXT = "bad_text"
    """NUL bytes or lone surrogates."""
    TOO_LARGE = "too_large"
    UNCHANGED = "unchanged"
    """The child is the parent, by normal form."""
    NOTHING_TO_CHANGE = "nothing_to_change"
    """An operator found nothing to work on (no constants, say)."""
    MODEL_FAILED = "model_failed"
    """The endpoint gave no reply. Unmeasured, not the model's fault."""


@dataclass(frozen=True)
class Context:
    """Everything a proposer may look at for one step: one parent and a few others, never the population."""

    parent: Attempt
    inspirations: tuple[Attempt, ...] = ()
    history: tuple[Attempt, ...] = ()
    """Earlier attempts on this lineage, worst first."""
    rejected: str = ""
    """Why the previous reply for this parent was rejected, if it was."""
    vector: tuple[float, ...] | None = None
    """For `tune`: the constants to put in, as decided by the optimiser."""


@dataclass(frozen=True)
class Proposal:
    """A child, or the typed reason why there is none."""

    edit: Edit
    program: Program | None = None
    rejection: Rejection | None = None
    detail: str = ""
    """For a rejection: one or two sentences a model can act on, naming the place."""
    extra: dict[str, Any] | None = None
