"""The round machine: what a lab does next, as a pure function of its ledger and its settings.

    b0 trains -> calibrate
    then, round after round:
        diagnose the parent -> (a gap: a new diagnostic is proposed, replayed, admitted or not) -> propose -> backtest
        -> launch, with a control -> train, rung by rung -> diagnose -> judge: the control against the parent, then each child
        -> end the round -> skills -> (three failed rounds: escalate)
    then report once, on tasks that nothing has touched, and finish

The driver carries an action out and appends one event for it; a kill repeats at most the action in flight. Every action, once its event is
there, is never the next one again: `tests/lab/test_rounds.py` holds it to that.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from coevo.diagnostics.types import Diagnosis, Level
from coevo.gate.types import Verdict
from coevo.lab.ledger import START, Ledger, Round, promotable
from coevo.lab.settings import ApproveAt, LabConfig
from coevo.lab.types import Branch, BranchState, Family

RETURNS = 2
"""How often an agent is told what its proposals lack, in one round."""

PATIENCE = 3
"""Failed rounds in a row after which the lab escalates; then once after every further one."""


@dataclass(frozen=True)
class Launch:
    """Make a branch: its harness commit, its training run. `index`: of the round's accepted proposals; None: the control, or the start."""

    name: str
    index: int | None


@dataclass(frozen=True)
class Train:
    """Bring these branches to `step` (counted from their launch)."""

    branches: tuple[str, ...]
    step: int


@dataclass(frozen=True)
class Prune:
    """Look at the branches of the round after a rung, and stop the hopeless ones."""

    rung: int
    branches: tuple[str, ...]
    keep: int
    """Of `branches`, which are without the control."""


@dataclass(frozen=True)
class Diagnose:
    branch: str


@dataclass(frozen=True)
class Calibrate:
    branch: str


@dataclass(frozen=True)
class OpenRound:
    number: int
    parent: str


@dataclass(frozen=True)
class OpenGap:
    why: str


@dataclass(frozen=True)
class ProposeDiagnostic:
    why: str


@dataclass(frozen=True)
class AdmitDiagnostic:
    """Replay the suggested diagnostic on past branches."""


@dataclass(frozen=True)
class Propose:
    """One turn of the agent."""

    turn: int
    wanted: int
    returned: tuple[str, ...]


@dataclass(frozen=True)
class Backtest:
    index: int


@dataclass(frozen=True)
class AskApproval:
    stage: ApproveAt


@dataclass(frozen=True)
class Wait:
    """Nothing, until a person has answered."""

    stage: str


@dataclass(frozen=True)
class Judge:
    """One step of the gate for a branch: a look, or its verdict."""

    branch: str
    against: str


@dataclass(frozen=True)
class EndRound:
    promoted: str
    """Branch, or nothing."""


@dataclass(frozen=True)
class RecordSkills:
    number: int


@dataclass(frozen=True)
class Escalate:
    failures: int


@dataclass(frozen=True)
class Report:
    final: str
    start: str


@dataclass(frozen=True)
class Finish:
    why: str


Action = (
    Launch
    | Train
    | Prune
    | Diagnose
    | Calibrate
    | OpenRound
    | OpenGap
    | ProposeDiagnostic
    | AdmitDiagnostic
    | Propose
    | Backtest
    | AskApproval
    | Wait
    | Judge
    | EndRound
    | RecordSkills
    | Escalate
    | Report
    | Finish
)


def next_action(ledger: Ledger, config: LabConfig) -> Action:
    """What to do now."""
    if not ledger.branches:
        return Finish(ledger.exhausted) if ledger.exhausted else Launch(START, None)
    start = ledger.branches[START]
    if start.state is BranchState.FAILED or ledger.reported or (ledger.exhausted and start.diagnosis is None):
        return Finish(_why(ledger, config, start))
    if ledger.exhausted:
        return Report(ledger.parent, START)
    if start.state is BranchState.TRAINING:
        return Train((START,), config.steps)
    if start.diagnosis is None:
        return Diagnose(START)
    under_way = ledger.round is not None and not (ledger.round.ended and ledger.round.skills_done)
    if under_way:
        assert ledger.round is not None
        return _in_round(ledger, ledger.round, config)
    if ledger.failures >= PATIENCE and ledger.escalated_at < ledger.rounds:
        return Escalate(ledger.failures)
    if ledger.rounds >= config.budget.rounds or not affords_round(ledger, config):
        return Report(ledger.parent, START)
    if not ledger.calibrated:
        return Calibrate(ledger.parent)
    return OpenRound(ledger.rounds + 1, ledger.parent)


def _in_round(ledger: Ledger, now: Round, config: LabConfig) -> Action:
    if now.ended:
        return RecordSkills(now.number)
    if stage := ledger.waiting_for():
        return Wait(stage)
    return (
        _gap(ledger, now, config)
        or _design(ledger, now, config)
        or _launch(ledger, now, config)
        or _train(ledger, now, config)
        or _judge(ledger, now)
        or _end(ledger, now, config)
    )


# The harness's own gap


def _gap(ledger: Ledger, now: Round, config: LabConfig) -> Action | None:
    if now.gap_done or now.turns:
        return None
    if now.suggestion is not None:
        return AdmitDiagnostic()
    if now.gap:
        return ProposeDiagnostic(now.gap)
    if not config.frozen_harness and (why := gap_of(ledger)):
        return OpenGap(why)
    return None


def gap_of(ledger: Ledger) -> str:
    """What the last round's branches showed that no diagnostic had told; empty where diagnostics and gate agree."""
    last = [b for b in ledger.branches.values() if b.round == ledger.rounds and b.round and b.judgement is not None]
    for branch in last:
        assert branch.judgement is not None
        harmed = branch.judgement.verdict is Verdict.INVALID or (branch.judgement.high or 0.0) < 0
        if harmed and not warned(branch.diagnosis):
            what = "was found invalid" if branch.judgement.verdict is Verdict.INVALID else "lost true ability"
            return f"branch {branch.name} {what} ({'; '.join(branch.judgement.reasons[:2])}), and no diagnostic had warned of it"
    undecided = [b for b in last if b.judgement and b.judgement.verdict is Verdict.INCONCLUSIVE]
    if len(undecided) > 1 and len({warned(b.diagnosis) for b in undecided}) > 1:
        names = ", ".join(b.name for b in undecided)
        return (
            f"the gate could not tell branches {names} apart from their parents, while diagnostics disagree about them"
        )
    return ""


def warned(diagnosis: Diagnosis | None) -> bool:
    """Whether any diagnostic is critical."""
    return diagnosis is not None and bool(diagnosis.at(Level.CRITICAL))


# Proposals


def _design(ledger: Ledger, now: Round, config: LabConfig) -> Action | None:
    if now.branches:
        return None
    room = affordable(ledger, config)
    again = now.turns == 0 or (now.returned and now.turns <= RETURNS)
    if len(now.accepted) < room and again:
        return Propose(now.turns + 1, room - len(now.accepted), now.returned)
    for index in range(len(now.accepted)):
        if index not in now.backtests:
            return Backtest(index)
    for stage in ("design", "launch"):
        if now.accepted and wants(config, stage):
            if stage not in now.answers:
                return AskApproval(stage)
            if not now.answers[stage]:
                return EndRound("")
    return None


def wants(config: LabConfig, stage: str) -> bool:
    """Whether a person is to be asked at `stage`."""
    return config.approve in (stage, "all")


def affordable(ledger: Ledger, config: LabConfig) -> int:
    """Interventions that the budget of steps still allows in this round, beside the control."""
    if config.budget.steps is None:
        return config.branches
    left = config.budget.steps - ledger.steps_spent
    return max(0, min(config.branches, left // config.steps - (1 if config.control else 0)))


def affords_round(ledger: Ledger, config: LabConfig) -> bool:
    """Whether another round can try at least one intervention."""
    return affordable(ledger, config) > 0


# Branches


def _launch(ledger: Ledger, now: Round, config: LabConfig) -> Action | None:
    """The control first, then the accepted proposals in order."""
    plan: list[int | None] = [None] if config.control else []
    plan += range(len(now.accepted))
    if len(now.branches) < len(plan):
        return Launch(f"b{len(ledger.branches)}", plan[len(now.branches)])
    return None


def _train(ledger: Ledger, now: Round, config: LabConfig) -> Action | None:
    rungs = config.prune.rungs
    stops = [config.steps * (i + 1) // (rungs + 1) for i in range(rungs + 1)]
    for rung, stop in enumerate(stops, 1):
        behind = [n for n in now.branches if _training(ledger, n) and not _is_at(ledger, n, stop)]
        if behind:
            return Train(tuple(behind), stop)
        if rung <= rungs and now.rungs < rung and 0 < stop < stops[rung]:  # With few steps a rung may come to nothing.
            live = tuple(b.name for b in ledger.children() if b.state is BranchState.TRAINING)
            return Prune(rung, live, max(1, math.ceil(config.prune.keep * len(live))))
    return None


def _training(ledger: Ledger, name: str) -> bool:
    return ledger.branches[name].state is BranchState.TRAINING


def _is_at(ledger: Ledger, name: str, stop: int) -> bool:
    """Whether a branch in training has come as far as this rung; one that trains nothing (an average) still has to be made."""
    return ledger.wanted[name] > 0 and ledger.steps[name] >= min(stop, ledger.wanted[name])


# Verdicts


def _judge(ledger: Ledger, now: Round) -> Action | None:
    """The control against the parent, then the children against the round's yardstick; the diagnosis of each before its verdict."""
    control = ledger.control()
    for name in now.branches:
        branch = ledger.branches[name]
        if branch.state is BranchState.TRAINED and branch.diagnosis is None:
            return Diagnose(name)
    for branch in [*([control] if control else []), *ledger.children()]:
        if branch.state in (BranchState.TRAINED, BranchState.FAILED) and branch.judgement is None:
            against = now.parent if control is not None and branch.name == control.name else yardstick(ledger, now)
            return Judge(branch.name, against)
    return None


def yardstick(ledger: Ledger, now: Round) -> str:
    """What a child is held against: the control, since more steps alone may help; the parent, where there is no control, or where going on
    was itself invalid or made it worse (a yardstick that shrinks would promote anything)."""
    control = ledger.control()
    if control is None or control.state is not BranchState.TRAINED or control.judgement is None:
        return now.parent
    judgement = control.judgement
    shrunk = judgement.verdict in (Verdict.INVALID, Verdict.UNMEASURED) or (judgement.difference or 0.0) < 0
    return now.parent if shrunk else control.name


def _end(ledger: Ledger, now: Round, config: LabConfig) -> Action:
    best = winner(ledger)
    if best and wants(config, "promote"):
        if "promote" not in now.answers:
            return AskApproval("promote")
        if not now.answers["promote"]:
            return EndRound("")
    return EndRound(best)


def winner(ledger: Ledger) -> str:
    """The promoted child whose gain is surest (the largest lower bound); without one, the control if going on was itself a gain."""
    children = [b for b in ledger.children() if promotable(b)]
    if children:
        return max(children, key=_surely).name
    control = ledger.control()
    return control.name if control is not None and promotable(control) else ""


def _surely(branch: Branch) -> float:
    assert branch.judgement is not None
    low = branch.judgement.low
    return -math.inf if low is None else low


def _why(ledger: Ledger, config: LabConfig, start: Branch) -> str:
    if start.state is BranchState.FAILED:
        return f"the first recipe cannot be trained: branch {START} failed"
    if ledger.exhausted:
        return ledger.exhausted
    if ledger.rounds >= config.budget.rounds:
        return f"all {config.budget.rounds} rounds were made" if config.budget.rounds > 1 else "its round was made"
    return f"the budget of {config.budget.steps} steps does not pay another round"


def families(ledger: Ledger) -> Mapping[Family, tuple[int, int]]:
    """(tried, promoted) by family, over the whole lab."""
    found: dict[Family, tuple[int, int]] = {}
    for branch in ledger.branches.values():
        if branch.proposal is not None and branch.judgement is not None:
            tried, won = found.get(branch.proposal.family, (0, 0))
            found[branch.proposal.family] = tried + 1, won + promotable(branch)
    return found
