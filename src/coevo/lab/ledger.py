"""Where a lab stands: a fold of its run's events. Pure; the same events give the same ledger, whoever was killed in between.

lab         once, version and harness: the first commit, the sealed hashes
branch      a branch was launched: its name, parent, harness commit, run
trained     a branch reached a step, at its cost
failed      a branch's training ended in an error
pruned      after a rung: who stops, and how promising each one was
diagnosed   what a branch's training rollouts say
calibrated  what the gate does where nothing is to be found
gap         a round asks for a new diagnostic
suggested   the agent's answer to a gap
admitted    what the replay on past branches said of it (or that there was nothing to replay)
proposed    one turn of the agent: its proposals, each with what it lacks
backtested  an accepted proposal, on recorded rollouts
asked       a person must say yes; `answered` is what they said
looked      one look of the gate; its rows are rollouts of the run
judged      a verdict
ended       a round is over: who was promoted, which predictions came true
skills      what a round said of skills
escalated   after three failed rounds
exhausted   a budget ended the rounds
given       a person gave the lab another budget; one that had ended goes on
reported    the last measurement, on the report split
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from coevo.errors import StoreError
from coevo.gate.types import Calibration, Look, Verdict
from coevo.lab.baseline import Baseline, baseline_of
from coevo.lab.proposals import proposal_of
from coevo.lab.records import calibration_of, diagnosis_of, judgement_of, look_of
from coevo.lab.types import Branch, BranchState, Family, Proposal
from coevo.runs.types import Event
from coevo.skills.types import Outcome, Use

VERSION = 1
"""Of the events. A newer lab is refused, never guessed at."""

START = "b0"


@dataclass(frozen=True)
class Round:
    """One round under way."""

    number: int
    parent: str
    """The branch it changes."""
    gap: str = ""
    suggestion: Mapping[str, Any] | None = None
    """A new diagnostic, proposed and not yet replayed."""
    gap_done: bool = False
    turns: int = 0
    """Of the agent."""
    returned: tuple[str, ...] = ()
    """Why proposals of the last turn came back; empty: nothing is to be mended."""
    accepted: tuple[Proposal, ...] = ()
    backtests: Mapping[int, Mapping[str, Any]] = field(default_factory=dict)
    answers: Mapping[str, bool | None] = field(default_factory=dict)
    """Stage -> what the person said; None while they have not."""
    branches: tuple[str, ...] = ()
    """In order of launching; the control, where there is one, first."""
    rungs: int = 0
    """Looks at the branches in training, so far."""
    looks: Mapping[str, tuple[Look, ...]] = field(default_factory=dict)
    ended: bool = False
    skills_done: bool = False


@dataclass(frozen=True)
class Ledger:
    """All that the next action is decided from."""

    harness: str = ""
    """Commit of the harness that the next branch is made from."""
    sealed: Mapping[str, str] = field(default_factory=dict)
    branches: Mapping[str, Branch] = field(default_factory=dict)
    """In order of launching."""
    steps: Mapping[str, int] = field(default_factory=dict)
    """Of each branch: optimizer steps made since it was launched."""
    wanted: Mapping[str, int] = field(default_factory=dict)
    """And how many it is to make."""
    weights: Mapping[str, str] = field(default_factory=dict)
    """Digest of each branch's weights, taken when they were written."""
    records: Mapping[str, str] = field(default_factory=dict)
    """Digest of each branch's training run, taken with it."""
    asked: Mapping[str, str] = field(default_factory=dict)
    """Digest of what each branch's policy is asked with beside its weights (tokenizer, templates, settings), taken with it."""
    checkpoints: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Digests of each branch's checkpoints by step, taken when they were first seen: later branches may begin with them."""
    minutes: Mapping[str, float] = field(default_factory=dict)
    """Of training; measured, so no decision rests on it."""
    trouble: Mapping[str, str] = field(default_factory=dict)
    """Failed branch -> why."""
    parent: str = ""
    """The branch that the next round changes; empty before the first was made."""
    calibration: Calibration | None = None
    calibrated: bool = False
    base: Baseline | None = None
    """The calibrated parent against the base weights."""
    round: Round | None = None
    rounds: int = 0
    """Ended."""
    failures: int = 0
    """Rounds in a row that promoted nothing."""
    escalation: str = ""
    escalated_at: int = 0
    """`rounds` when it was last said."""
    holdout: int = 0
    """Accesses, by any child of the lab."""
    predictions: tuple[tuple[float, bool], ...] = ()
    """(confidence, came true), of those that could be scored."""
    uses: tuple[Use, ...] = ()
    admissions: tuple[Mapping[str, Any], ...] = ()
    """Every new diagnostic's answer, in order: {"proposal", "admitted", "reason", ...}."""
    exhausted: str = ""
    """Which budget ended the rounds."""
    reported: bool = False
    reports: int = 0
    """Measurements on the report split: one, and another for every time that a lab which had reported was given more."""
    budget: Mapping[str, Any] | None = None
    """That it was last given; None: the one of its settings."""

    @property
    def current(self) -> Branch:
        return self.branches[self.parent]

    @property
    def steps_spent(self) -> int:
        return sum(self.steps.values())

    def waiting_for(self) -> str:
        """The stage at which a person is being asked, or nothing."""
        answers = self.round.answers if self.round else {}
        return next((stage for stage, answer in answers.items() if answer is None), "")

    def control(self) -> Branch | None:
        """Of the round under way."""
        for name in self.round.branches if self.round else ():
            branch = self.branches[name]
            if branch.proposal is not None and branch.proposal.family is Family.CONTINUE:
                return branch
        return None

    def children(self) -> list[Branch]:
        """Branches of the round under way that change something, in order."""
        control = self.control()
        names = self.round.branches if self.round else ()
        return [self.branches[name] for name in names if control is None or name != control.name]


def fold(events: Iterable[Event], ledger: Ledger | None = None) -> Ledger:
    """The ledger after `events`; events of the store's own and unknown to this version's fold are passed over."""
    found = ledger or Ledger()
    for event in events:
        step = _AFTER.get(event.kind)
        if step is not None:
            found = step(found, event.payload)
    return found


Data = Mapping[str, Any]


def _lab(ledger: Ledger, data: Data) -> Ledger:
    if data["version"] > VERSION:
        raise StoreError(
            f"this lab was made by a newer coevo (events of version {data['version']}, this one knows {VERSION}); update coevo"
        )
    return replace(ledger, harness=data["commit"], sealed=data["sealed"])


def _branch(ledger: Ledger, data: Data) -> Ledger:
    name = data["name"]
    proposal = proposal_of(data["proposal"]) if data["proposal"] else None
    branch = Branch(
        name=name,
        parent=data["parent"],
        round=data["round"],
        proposal=proposal,
        commit=data["commit"],
        state=BranchState.TRAINING,
        run=data["run"],
    )
    found = replace(
        ledger,
        branches={**ledger.branches, name: branch},
        steps={**ledger.steps, name: 0},
        wanted={**ledger.wanted, name: data["steps"]},
        parent=ledger.parent or name,
    )
    if ledger.round is not None:
        found = replace(found, round=replace(ledger.round, branches=(*ledger.round.branches, name)))
    return found


def _trained(ledger: Ledger, data: Data) -> Ledger:
    name = data["branch"]
    branch = ledger.branches[name]
    cost = {k: branch.cost.get(k, 0.0) + v for k, v in data["cost"].items()}
    done = data["step"] >= ledger.wanted[name] or data["ended"]
    state = BranchState.TRAINED if done else BranchState.TRAINING
    found = _with_branch(ledger, replace(branch, state=state, cost=cost))
    return replace(
        found,
        steps={**ledger.steps, name: data["step"]},
        weights={**ledger.weights, name: data["weights"]},
        records={**ledger.records, name: data.get("record", "")},
        asked={**ledger.asked, name: data.get("asked", "")},
        checkpoints={
            **ledger.checkpoints,
            name: {**data.get("checkpoints", {}), **ledger.checkpoints.get(name, {})},
        },
        minutes={**ledger.minutes, name: ledger.minutes.get(name, 0.0) + data["timing"]["minutes"]},
    )


def _failed(ledger: Ledger, data: Data) -> Ledger:
    found = _with_branch(ledger, replace(ledger.branches[data["branch"]], state=BranchState.FAILED))
    return replace(found, trouble={**ledger.trouble, data["branch"]: data["why"]})


def _pruned(ledger: Ledger, data: Data) -> Ledger:
    for name in data["branches"]:
        ledger = _with_branch(ledger, replace(ledger.branches[name], state=BranchState.PRUNED))
    return _in_round(ledger, rungs=data["rung"])


def _diagnosed(ledger: Ledger, data: Data) -> Ledger:
    return _with_branch(ledger, replace(ledger.branches[data["branch"]], diagnosis=diagnosis_of(data["diagnosis"])))


def _calibrated(ledger: Ledger, data: Data) -> Ledger:
    found = data["calibration"]
    base = baseline_of(data.get("base"))
    return replace(ledger, calibrated=True, calibration=calibration_of(found) if found else None, base=base)


def _opened(ledger: Ledger, data: Data) -> Ledger:
    return replace(ledger, round=Round(data["round"], data["parent"]))


def _gap(ledger: Ledger, data: Data) -> Ledger:
    return _in_round(ledger, gap=data["why"])


def _suggested(ledger: Ledger, data: Data) -> Ledger:
    return _in_round(ledger, suggestion=data["proposal"], gap_done=data["proposal"] is None)


def _admitted(ledger: Ledger, data: Data) -> Ledger:
    found = _in_round(ledger, gap_done=True)
    return replace(found, harness=data["commit"], admissions=(*ledger.admissions, data))


def _proposed(ledger: Ledger, data: Data) -> Ledger:
    assert ledger.round is not None
    accepted = [proposal_of(row["proposal"]) for row in data["proposals"] if not row["problems"]]
    returned = [why for row in data["proposals"] for why in row["problems"]] + data["problems"]
    return _in_round(
        ledger,
        turns=ledger.round.turns + 1,
        accepted=(*ledger.round.accepted, *accepted),
        returned=tuple(returned),
    )


def _backtested(ledger: Ledger, data: Data) -> Ledger:
    assert ledger.round is not None
    return _in_round(ledger, backtests={**ledger.round.backtests, data["index"]: data["result"]})


def _asked(ledger: Ledger, data: Data) -> Ledger:
    assert ledger.round is not None
    return _in_round(ledger, answers={**ledger.round.answers, data["stage"]: None})


def _answered(ledger: Ledger, data: Data) -> Ledger:
    assert ledger.round is not None
    return _in_round(ledger, answers={**ledger.round.answers, data["stage"]: bool(data["yes"])})


def _looked(ledger: Ledger, data: Data) -> Ledger:
    assert ledger.round is not None
    name, look = data["branch"], look_of(data["look"])
    looks = {**ledger.round.looks, name: (*ledger.round.looks.get(name, ()), look)}
    found = _in_round(ledger, looks=looks)
    return replace(found, holdout=ledger.holdout + (look.split == "holdout"))


def _judged(ledger: Ledger, data: Data) -> Ledger:
    branch = ledger.branches[data["branch"]]
    return _with_branch(ledger, replace(branch, judgement=judgement_of(data["judgement"])))


def _ended(ledger: Ledger, data: Data) -> Ledger:
    promoted = data["promoted"]
    found = _in_round(ledger, ended=True)
    if promoted:
        found = replace(found, parent=promoted, harness=data["commit"], failures=0, escalation="")
    else:
        found = replace(found, failures=ledger.failures + 1)
    scored = tuple((row["confidence"], row["true"]) for row in data["scored"] if row["true"] is not None)
    return replace(found, rounds=ledger.rounds + 1, predictions=(*ledger.predictions, *scored))


def _skills(ledger: Ledger, data: Data) -> Ledger:
    uses = tuple(Use(**{**row, "outcome": Outcome(row["outcome"])}) for row in data["uses"])
    found = _in_round(ledger, skills_done=True)
    return replace(found, harness=data["commit"], uses=(*ledger.uses, *uses))


def _escalated(ledger: Ledger, data: Data) -> Ledger:
    return replace(
        ledger,
        escalation=data["text"],
        escalated_at=ledger.rounds,
        parent=data["parent"],
        harness=data["commit"],
        calibrated=ledger.calibrated and not data["recalibrate"],
    )


def _exhausted(ledger: Ledger, data: Data) -> Ledger:
    return replace(ledger, exhausted=data["why"])


def _reported(ledger: Ledger, data: Data) -> Ledger:
    return replace(ledger, reported=True, reports=ledger.reports + 1)


def _given(ledger: Ledger, data: Data) -> Ledger:
    return replace(ledger, budget=data["budget"], exhausted="", reported=False)


_AFTER: Mapping[str, Callable[[Ledger, Data], Ledger]] = {
    "lab": _lab,
    "branch": _branch,
    "trained": _trained,
    "failed": _failed,
    "pruned": _pruned,
    "diagnosed": _diagnosed,
    "calibrated": _calibrated,
    "round": _opened,
    "gap": _gap,
    "suggested": _suggested,
    "admitted": _admitted,
    "proposed": _proposed,
    "backtested": _backtested,
    "asked": _asked,
    "answered": _answered,
    "looked": _looked,
    "judged": _judged,
    "ended": _ended,
    "skills": _skills,
    "escalated": _escalated,
    "exhausted": _exhausted,
    "reported": _reported,
    "given": _given,
}

KINDS = tuple(_AFTER)
"""Of a lab's events."""


def _with_branch(ledger: Ledger, branch: Branch) -> Ledger:
    return replace(ledger, branches={**ledger.branches, branch.name: branch})


def _in_round(ledger: Ledger, **changes: Any) -> Ledger:
    assert ledger.round is not None
    return replace(ledger, round=replace(ledger.round, **changes))


def promotable(branch: Branch) -> bool:
    """Whether the gate said yes."""
    return branch.judgement is not None and branch.judgement.verdict is Verdict.PROMOTED
