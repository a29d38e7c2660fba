"""Values of the lab: changes, proposals, briefs, agents, branches. Nothing here touches a disk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple, Protocol

from coevo.diagnostics.types import Diagnosis
from coevo.gate.types import Calibration, Judgement
from coevo.lab.baseline import Baseline
from coevo.skills.types import Skill


class Family(StrEnum):
    """Kinds of interventions. Rules and skills suggest families, the playbook draws from them, statistics are kept by them."""

    CONTINUE = "continue"
    """No change: the control that every other branch is held against."""
    REWARD = "reward"
    """A part, its weight, or a file in rewards/."""
    FILTER = "filter"
    DATA = "data"
    """Data mix, curriculum, tasks left out."""
    HYPERPARAMETER = "hyperparameter"
    EPISODE = "episode"
    """Turns, limits, temperature, prompt."""
    CHECKPOINT = "checkpoint"
    """Go on from another checkpoint of the parent."""
    AVERAGE = "average"
    """Average the weights of two branches; trains nothing."""


@dataclass(frozen=True)
class Change:
    """What an intervention does to the harness: one of the three, and of that one thing, unless `bundle` says otherwise."""

    sets: Mapping[str, Any] = field(default_factory=dict)
    """Recipe leaves by dotted name -> new value."""
    files: Mapping[str, str | None] = field(default_factory=dict)
    """Harness files by path -> new text; None removes."""
    weights: Mapping[str, str] = field(default_factory=dict)
    """checkpoint: {"from": "BRANCH@STEP"}, or {"from": "base"}; average: {"a": BRANCH, "b": BRANCH, "share": "0.5"}."""
    bundle: str = ""
    """Why several things change at once; then `ablation` says in which order they will be taken out again."""
    ablation: tuple[str, ...] = ()

    @property
    def empty(self) -> bool:
        return not (self.sets or self.files or self.weights)


class Prediction(NamedTuple):
    """What the proposer expects; scored later."""

    metric: str
    """"truth", or a diagnostic's id."""
    direction: str
    """"up" or "down"."""
    size: float | None = None
    """In the metric's unit."""
    confidence: float = 0.5
    """Chance that it comes true, as the proposer sees it (0 to 1); Brier-scored."""


@dataclass(frozen=True)
class Proposal:
    """One intervention, with what it rests on."""

    family: Family
    hypothesis: str
    evidence: tuple[str, ...]
    """Ids it rests on: diagnostics, rules, branches, backtests of the brief."""
    change: Change
    prediction: Prediction
    success: str
    """When it counts as a success, in words."""
    rollback: str
    """What is undone if it fails."""
    wrong_if: str = ""
    """What would show that the hypothesis is wrong."""
    skill: str = ""
    """Name of the skill that proposed it."""


@dataclass(frozen=True)
class DiagnosticProposal:
    """A new diagnostic: a program (run in the sandbox) or a term of the grammar, to be admitted by a replay on past branches."""

    id: str
    title: str
    formula: str
    means: str
    warn: float
    critical: float
    source_code: str = ""
    """Python that defines `measure(columns) -> float`: columns are numpy arrays by name. Runs in the sandbox."""
    term: str = ""
    """Or a term of `coevo.backtest`'s grammar."""
    why: str = ""


class BranchState(StrEnum):
    TRAINING = "training"
    TRAINED = "trained"
    PRUNED = "pruned"
    """Early diagnostics said it was hopeless."""
    FAILED = "failed"
    """Its training ended in an error; it is unmeasured."""


@dataclass(frozen=True)
class Branch:
    """A node of the forest: a harness commit, its training run, and what was said of it."""

    name: str
    """"b3", in order of making; the start is "b0"."""
    parent: str | None
    round: int
    proposal: Proposal | None
    commit: str
    """Of the harness repository."""
    state: BranchState
    run: str = ""
    """Folder of its training run, relative to the lab's."""
    diagnosis: Diagnosis | None = None
    judgement: Judgement | None = None
    cost: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Brief:
    """All an agent is told for one turn; stored exactly as given. Every turn is a fresh one."""

    goal: str
    round: int
    parent: Branch
    recipe: Mapping[str, Any]
    """The parent's, resolved."""
    diagnosis: Diagnosis
    excerpts: tuple[Mapping[str, Any], ...]
    """Rollouts behind the worst findings, shortened."""
    past: tuple[Branch, ...]
    """Every branch so far, failures included."""
    skills: tuple[Skill, ...]
    """That fire on the diagnosis, trusted first."""
    calibration: Calibration | None
    remaining: Mapping[str, float | None]
    allowed: Mapping[str, str]
    """What may change: dotted names or path patterns -> what it is."""
    wanted: int
    """Proposals asked for."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Harness files that may change, by path -> text: rewards, filters, diagnostics."""
    escalation: str = ""
    """After three failed rounds: what to try now."""
    base: Baseline | None = None
    """The parent against the base weights, where that was measured."""
    returned: tuple[str, ...] = ()
    """Why earlier proposals of this round came back."""
    terms: tuple[Mapping[str, Any], ...] = ()
    """Where there is a diagnostic gap: terms of the grammar that the lab screened on past branches, best first ({"term", "auc", "p",
    "warn", "critical"})."""

    def to_dict(self) -> dict[str, Any]:
        """As stored, and as given to `command` agents (brief.json)."""
        from coevo.lab.briefs import brief_dict

        return brief_dict(self)


class Agent(Protocol):
    """Who proposes. The lab owns the loop; an agent only answers briefs, and is asked again after a kill with the same brief."""

    name: str

    def propose(self, brief: Brief) -> Sequence[Proposal]:
        """Up to `brief.wanted` interventions. Raises `InfrastructureError` when it cannot be reached; a reply that is no proposal is an
        `AgentReply` error, which the lab returns to it, naming what is missing, up to twice."""
        ...

    def propose_diagnostic(self, brief: Brief, gap: str) -> DiagnosticProposal | None:
        """A diagnostic that closes a gap the lab has found; None if it knows none."""
        ...

    def spent(self) -> Mapping[str, float]:
        """`tokens` and `usd` since this was last asked; the lab settles its budget with it after every turn."""
        ...
