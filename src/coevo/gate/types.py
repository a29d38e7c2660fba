"""Values of the gate: what it is told, what it asks for, what it says. The gate is a fold: `next_step(config, seen)` asks for one more
look or gives its verdict, so a gate that was killed goes on from what is stored.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from coevo.evidence.types import Frame


class Verdict(StrEnum):
    PROMOTED = "promoted"
    REJECTED = "rejected"
    """Measured well enough to say: no gain worth having, or a loss."""
    INCONCLUSIVE = "inconclusive"
    """Could be either; the parent stays. `to_settle` says how many tasks would tell."""
    INVALID = "invalid"
    """Whatever its score, it is not what it claims: a check of integrity, health or truth failed."""
    UNMEASURED = "unmeasured"
    """Infrastructure: too little could be measured to say anything."""


class CheckName(StrEnum):
    """In the order in which they run: cheap first."""

    INTEGRITY = "integrity"
    HEALTH = "health"
    TRUTH = "truth"
    NON_REGRESSION = "non_regression"
    GAIN = "gain"
    HOLDOUT = "holdout"


class Status(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    UNMEASURED = "unmeasured"
    BROKEN = "broken"
    """The check itself raised. Fails closed: never a promotion."""
    UNKNOWN = "unknown"
    """Neither arm carries what it takes, and nobody promised it: listed, and held against no one."""


class Check(NamedTuple):
    """What one check found."""

    name: str
    """CheckName, or CheckName.DETAIL ("integrity.base_weights")."""
    status: Status
    reason: str
    numbers: Mapping[str, float] = {}


@dataclass(frozen=True)
class Subject:
    """What the gate is told of one arm, beside what it measures itself. Everything is checked; what is missing is a failed check
    where it was promised (a child of a lab), and listed as unknown where it never was (two files in `coevo compare`)."""

    name: str
    recipe: Mapping[str, Any] = field(default_factory=dict)
    """Resolved, as plain data."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Harness files: path -> SHA-256."""
    sealed: Mapping[str, str] = field(default_factory=dict)
    """Judge, splits, gate settings, budget: name -> SHA-256, taken when the branch ended."""
    base_weights: str = ""
    """Digest of the weights training started from."""
    training: Frame | None = None
    """Its training rollouts."""
    origins: tuple[str, ...] = ()
    """Digests of the weights it was allowed to start from (its parent's checkpoint, the base, those it averages), as the lab recorded them
    when they were written; empty: the parent's `base_weights`."""
    declared: tuple[str, ...] | None = None
    """Recipe leaves (dotted) and harness files that its proposal said it would change; "weights" for another starting point. Empty: a plain
    continuation. None: it never said, and may have changed one thing."""
    allowed: tuple[str, ...] | None = None
    """Patterns (`fnmatch`) of leaves and files that may change; None: any."""
    recorded: Mapping[str, str] = field(default_factory=dict)
    """What its training left (weights, rollouts), by digests that were taken when it ended."""
    found: Mapping[str, str] = field(default_factory=dict)
    """The same digests, taken now."""


class Look(NamedTuple):
    """One interim look's measurements: fresh samples of both arms on the same tasks, under seeds of the gate's own."""

    split: str
    """"gate" or "holdout"."""
    number: int
    """From 1; for the holdout, the number of the access in the lab's life (as its `Ask` said)."""
    parent: Mapping[str, tuple[float | None, ...]]
    """Task -> truth of each sample; None where it could not be measured."""
    child: Mapping[str, tuple[float | None, ...]]
    parent_frame: Frame | None = None
    """The rows behind them, for the checks of truth (contract, meaning, copies, public against hidden)."""
    child_frame: Frame | None = None


class Ask(NamedTuple):
    """Measure this, for both arms, and come again."""

    split: str
    number: int
    tasks: tuple[str, ...]
    samples: int
    """Per task and arm."""
    seed: int
    why: str


@dataclass(frozen=True)
class Judgement:
    """The verdict, and all that it rests on."""

    verdict: Verdict
    reasons: tuple[str, ...]
    checks: tuple[Check, ...] = ()
    difference: float | None = None
    """Mean over tasks of (child - parent), in units of truth."""
    low: float | None = None
    high: float | None = None
    """Interval at the level the spending plan allowed; repeated-confidence, so it holds at any look."""
    p: float | None = None
    tasks: int = 0
    looks: int = 0
    detectable: float | None = None
    """Minimum detectable effect at the stated power, printed before the measurement."""
    to_settle: int | None = None
    """inconclusive: about how many tasks would settle it at the difference seen; None: more than anyone has."""
    holdout_accesses: int = 0

    def to_dict(self) -> dict[str, Any]:
        return {
            **{k: v for k, v in vars(self).items() if k != "checks"},
            "verdict": str(self.verdict),
            "reasons": list(self.reasons),
            "checks": [{**c._asdict(), "status": str(c.status), "numbers": dict(c.numbers)} for c in self.checks],
        }


@dataclass(frozen=True)
class Calibration:
    """What the gate does where nothing is to be found: parent against itself."""

    noise: float
    """Standard deviation over tasks of the paired difference between twins."""
    false_promotions: float
    """Share of twin trials that were promoted."""
    low: float
    high: float
    """95 % Clopper-Pearson interval of it."""
    trials: int
    detectable: float
    power_at: Mapping[float, float] = field(default_factory=dict)
    """Planted gain -> share promoted by the gate split."""
    confirmed_at: Mapping[float, float] = field(default_factory=dict)
    """Planted gain -> share that the first holdout access confirmed as well."""
    tasks: int = 0
    """Of the gate split."""
    parity: float | None = None
    """Two-sided p of "the parent's two measurements agree"."""

    def to_dict(self) -> dict[str, Any]:
        planted = ("power_at", "confirmed_at")
        return {k: {str(g): p for g, p in v.items()} if k in planted else v for k, v in vars(self).items()}


class Seen(NamedTuple):
    """All the gate has to go by, in one value."""

    parent: Subject
    child: Subject
    tasks: Sequence[str]
    """Of the gate split."""
    holdout_tasks: Sequence[str]
    looks: Sequence[Look]
    holdout_accesses: int
    """Of the whole lab so far."""
    calibration: Calibration | None
    seed: int
    """Of the lab: the gate's own seeds follow from it, the child's name and the look."""
    share: float = 1.0
    """Of alpha: children of one round that are tested against one parent share it."""
    answers: Mapping[str, tuple[str, ...]] = {}
    """Task of the gate or holdout split -> fingerprints of its answers (`coevo.gate.fingerprints`). The gate never holds their text."""
    decoys: Mapping[str, tuple[str, ...]] = {}
    """The same of tasks like them that nobody is selected by (the report split): how often a policy comes upon an answer alone."""
    promised: tuple[str, ...] = ()
    """What both arms must carry, among "recipe", "files", "sealed", "base_weights", "training", "record", "rows" behind each look, and "answers" of the
    gate's tasks: a lab promises all it has. Where it is missing, integrity fails; where nothing was promised and neither arm has it, it is listed as not
    checked."""
