"""The thinking part of a round: gaps and new diagnostics, the brief, the agent's proposals, backtests."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path
from typing import Any

from coevo.backtest.candidates import Screening, screen
from coevo.backtest.types import Past, known_of
from coevo.diagnostics.types import Diagnosis, Level
from coevo.errors import CoevoError, StoreError, UsageError
from coevo.gate.types import Verdict
from coevo.lab.desk import Desk, Fact
from coevo.lab.harness import Harness
from coevo.lab.interventions import BASE, allowed, apply, resolved
from coevo.lab.proposals import (
    AgentReply,
    diagnostic_proposal_dict,
    diagnostic_proposal_of,
    problems_of,
    proposal_dict,
    proposal_of,
)
from coevo.lab.rounds import PATIENCE, Backtest, Propose
from coevo.lab.types import Agent, Branch, BranchState, Brief, Change, Proposal
from coevo.runs.jsontext import dumps, loads

EXCERPTS = 6
"""Rollouts shown in a brief."""
LONGEST_REASON = 2000
"""Characters of a reason why a proposal cannot be read, which may hold all of it."""


def brief_of(desk: Desk, *, wanted: int, returned: Sequence[str] = (), gap: bool = False) -> Brief:
    """All that the agent is told in one turn: the same after a kill."""
    ledger, config = desk.ledger, desk.config
    parent = ledger.current
    assert parent.diagnosis is not None
    return Brief(
        goal=config.goal,
        round=ledger.round.number if ledger.round else 0,
        parent=parent,
        recipe=resolved(desk.harness.recipe(ledger.harness), config).model_dump(mode="json"),
        diagnosis=parent.diagnosis,
        excerpts=tuple(_excerpts(desk, parent, parent.diagnosis)),
        past=tuple(ledger.branches.values()),
        skills=tuple(_skills(desk, parent.diagnosis)),
        calibration=ledger.calibration,
        base=ledger.base if ledger.base is not None and ledger.base.branch == parent.name else None,
        remaining=desk.remaining(),
        allowed=allowed(config),
        wanted=wanted,
        files=open_files(desk.harness, ledger.harness, allowed(config)),
        escalation=ledger.escalation,
        returned=tuple(returned),
        terms=tuple(one.to_dict() for one in _screened(desk).best) if gap else (),
    )


def open_files(harness: Harness, commit: str, may: Mapping[str, str]) -> dict[str, str]:
    """Harness files that an agent may change, by path -> text."""
    names = harness.files(commit)
    return {name: harness.read(commit, name) for name in names if any(fnmatchcase(name, pattern) for pattern in may)}


def _excerpts(desk: Desk, parent: Branch, diagnosis: Diagnosis) -> Sequence[Mapping[str, Any]]:
    """Rollouts behind the worst findings."""
    worst = [*diagnosis.at(Level.CRITICAL), *diagnosis.at(Level.WARN)]
    rows = list(dict.fromkeys(row for finding in worst for row in finding.reading.rows[:2]))[:EXCERPTS]
    if not rows:
        return []
    return desk.frame(parent.name).excerpt(rows)


def _skills(desk: Desk, diagnosis: Diagnosis) -> list[Any]:
    """Those that fire, trusted first; after long failure, of any domain."""
    from coevo.skills.retrieval import retrieve
    from coevo.skills.store import open_shelf

    if desk.config.placebo:
        return []
    shelf = open_shelf([*desk.config.skills, *_own_skills(desk)])
    found = retrieve(
        diagnosis,
        shelf.skills,
        desk.ledger.uses,
        desk.config.context(),
        scripts=desk.scripts,
        tombstones=shelf.tombstones,
        any_domain=desk.ledger.failures > PATIENCE,
    )
    return [one.skill for one in found]


def _own_skills(desk: Desk) -> list[Path]:
    folder = desk.harness.path / "skills"
    return [folder] if any(folder.glob("*/SKILL.md")) else []


# Gaps


def past_branches(desk: Desk) -> list[Past]:
    """The lab's branches of which something is known, as the backtest reads them."""
    found = []
    for branch in desk.ledger.branches.values():
        judgement = branch.judgement
        if judgement is None:
            continue
        known = known_of(str(judgement.verdict), high=judgement.high)
        baseline = desk.frame(branch.parent) if branch.parent else None
        found.append(Past(branch.name, desk.frame(branch.name), known, "; ".join(judgement.reasons[:2]), baseline))
    return found


def _screened(desk: Desk) -> Screening:
    """Terms of the grammar that separate past branches, best first."""
    return screen(past_branches(desk), seed=desk.config.seed)


def propose_diagnostic(desk: Desk, why: str) -> None:
    """The agent's answer to a gap."""
    brief = brief_of(desk, wanted=0, gap=True)
    key = f"gap-{brief.round}"
    with desk_turn(desk, "agent") as cost:
        try:
            found = desk.agent.propose_diagnostic(brief, why)
            problem = ""
        except AgentReply as e:
            found, problem = None, str(e)
        cost |= desk.agent.spent()
    proposal = None if found is None else diagnostic_proposal_dict(found)
    payload = {"round": brief.round, "brief": key, "proposal": proposal, "problem": problem, "cost": cost}
    payload |= {"replies": replies_of(desk.agent)}
    desk.commit(Fact("suggested", payload), completion=(key, brief.to_dict()))


def admit_diagnostic(desk: Desk) -> None:
    """Replay the suggested diagnostic on past branches; admitted, it is a file of the harness, and speaks from now on."""
    from coevo.backtest.admission import admit
    from coevo.backtest.proposed import diagnostic_of

    ledger = desk.ledger
    assert ledger.round is not None and ledger.round.suggestion is not None
    suggestion = dict(ledger.round.suggestion)
    payload: dict[str, Any] = {
        "round": ledger.round.number,
        "proposal": suggestion,
        "admitted": False,
        "commit": ledger.harness,
    }
    try:
        made = diagnostic_of(diagnostic_proposal_of(suggestion), bench=desk.bench)
    except UsageError as e:
        desk.commit(Fact("admitted", {**payload, "reason": str(e), "levels": None, "table": None}))
        return
    screened = _screened(desk)
    picked = made.formula in {str(one.term) for one in screened.best}
    admission = admit(
        made,
        past_branches(desk),
        desk.diagnostics(),
        seed=desk.config.seed,
        tried=len(ledger.admissions) + 1,
        family=screened.family if picked else (),
    )
    payload |= {"admitted": admission.admitted, "reason": admission.reason, "levels": admission.levels._asdict()}
    if admission.admitted:
        text = dumps({"proposal": suggestion, "admission": admission.to_dict()}) + "\n"
        message = f"Diagnostic {made.id}: {suggestion['title']}"
        payload["commit"] = desk.harness.commit(ledger.harness, {f"diagnostics/{made.id}.json": text}, message)
        desk.harness.advance(payload["commit"])
    desk.notify(f"diagnostic {made.id}: {'admitted' if admission.admitted else 'refused'} ({admission.reason})")
    desk.commit(Fact("admitted", {**payload, "table": admission.to_dict()}))


# Proposals


class desk_turn(dict[str, float]):
    """A turn of the agent, paid from the lab's budget: nothing is asked when tokens or dollars are spent. Booked with the event that follows."""

    def __init__(self, desk: Desk, purpose: str) -> None:
        super().__init__()
        self._desk, self._purpose = desk, purpose

    def __enter__(self) -> desk_turn:
        self._ticket = self._desk.run.ledger.reserve(self._purpose, tokens=0, usd=0)
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is not None:
            self._desk.run.ledger.release(self._ticket)
            return
        paid = {name: self.get(name, 0.0) for name in ("tokens", "usd")}
        self._desk.due.append((self._ticket, {**paid, "tokens": int(paid["tokens"])}))


def propose(desk: Desk, action: Propose) -> None:
    """One turn: a brief, the agent's proposals, what each lacks."""
    brief = brief_of(desk, wanted=action.wanted, returned=action.returned)
    key = f"brief-{brief.round}-{action.turn}"
    with desk_turn(desk, "agent") as cost:
        try:
            proposals, problems = readable(desk.agent.propose(brief), action.wanted)
        except AgentReply as e:
            proposals, problems = [], [str(e)]
        cost |= desk.agent.spent()
    rows, taken = [], list(desk.ledger.round.accepted if desk.ledger.round else ())
    for proposal in proposals:
        lacks = lacking(desk, proposal, brief, taken)
        rows.append({"proposal": proposal_dict(proposal), "problems": lacks})
        if not lacks:
            taken.append(proposal)
            desk.notify(f"round {brief.round}: proposed {told(proposal)}: {proposal.hypothesis}")
    payload = {"round": brief.round, "turn": action.turn, "agent": desk.agent.name, "brief": key, "cost": dict(cost)}
    payload |= {"replies": replies_of(desk.agent)}
    desk.commit(
        Fact("proposed", {**payload, "proposals": rows, "problems": problems}), completion=(key, brief.to_dict())
    )


def replies_of(agent: Agent) -> list[str]:
    """What a thinking agent said in its last turn, word by word, kept beside the brief: the record of why. Others have nothing to add."""
    return [str(m["content"]) for m in getattr(agent, "transcript", ()) if m["role"] == "assistant"]


def readable(replies: Any, most: int) -> tuple[list[Proposal], list[str]]:
    """The first `most` proposals of an agent as they will be read from the ledger, and why the others cannot be."""
    if not isinstance(replies, Iterable):
        return [], [f"proposals: a list of them is wanted, not a {type(replies).__name__}"]
    found, problems = [], []
    for number, one in enumerate(islice(replies, most), 1):
        where = f"proposal {number}"
        if not isinstance(one, Proposal):
            problems.append(f"{where}: a Proposal is wanted, not a {type(one).__name__}")
            continue
        try:
            found.append(proposal_of(loads(dumps(proposal_dict(one))), where=where))
        except (AgentReply, StoreError) as e:
            problems.append(str(e)[:LONGEST_REASON])
    return found, problems


def lacking(desk: Desk, proposal: Proposal, brief: Brief, taken: Sequence[Proposal]) -> list[str]:
    """Why a proposal goes back: what it lacks by itself, or what applying its change says."""
    found = problems_of(proposal, brief)
    if any(proposal.change == other.change for other in taken):
        found.append("change: proposed in this round already")
    if found:
        return found
    ledger = desk.ledger
    try:
        apply(proposal.change, desk.harness.recipe(ledger.harness), desk.config, desk.harness.files(ledger.harness))
        require_sources(desk, proposal)
    except CoevoError as e:
        return [f"change: {e}"]
    return []


def require_sources(desk: Desk, proposal: Proposal) -> None:
    """Raise `UsageError` where a change of weights names a branch that is not there, or one whose weights carry what the gate did not let pass."""
    for name in sources_of(proposal.change):
        branch = desk.ledger.branches.get(name)
        if branch is None or not desk.ledger.steps[name]:
            have = ", ".join(n for n, steps in desk.ledger.steps.items() if steps)
            raise UsageError(f"weights of branch {name!r} are not there; there are those of {have}")
        if why := unsound(branch):
            raise UsageError(f"weights of branch {name!r} are not to be used: {why}. Name another branch")


def sources_of(change: Change) -> tuple[str, ...]:
    """Branches whose weights a change begins with."""
    weights = change.weights
    first = weights.get("from", BASE)
    named = () if first == BASE else (first.partition("@")[0],)
    return (*named, *(weights[name] for name in ("a", "b") if name in weights))


def unsound(branch: Branch) -> str:
    """Why no other branch may begin with a branch's weights; "" where one may. The gate looks at what a child's own training left, so what was
    wrong with the branch that its weights come from would not be seen a second time."""
    if branch.state is BranchState.FAILED:
        return "its training failed"
    if branch.state is BranchState.PRUNED:
        return "it was pruned, and the gate never looked at its training"
    if branch.judgement is not None and branch.judgement.verdict is Verdict.INVALID:
        return f"the gate found it invalid ({'; '.join(branch.judgement.reasons[:1])})"
    return ""


def told(proposal: Proposal) -> str:
    """A change in a few words."""
    change = proposal.change
    parts = [f"{name} = {value!r}" for name, value in change.sets.items()]
    parts += [f"{'removes' if text is None else 'writes'} {name}" for name, text in change.files.items()]
    parts += [f"weights {dict(change.weights)}"] if change.weights else []
    return ", ".join(parts) or str(proposal.family)


# Backtests


def backtest(desk: Desk, action: Backtest) -> None:
    """What recorded rollouts of the parent say of a change before it is trained: kept beside what becomes of it, decides nothing alone."""
    assert desk.ledger.round is not None
    proposal = desk.ledger.round.accepted[action.index]
    try:
        result = backtested(desk, proposal)
    except CoevoError as e:
        result = {"kind": "", "prediction": None, "why": str(e)}
    if result["prediction"] is not None:
        desk.notify(f"backtest of {told(proposal)}: {result['prediction']:+.3f} ({result['kind']})")
    desk.commit(Fact("backtested", {"round": desk.ledger.round.number, "index": action.index, "result": result}))


def backtested(desk: Desk, proposal: Proposal) -> dict[str, Any]:
    """A reward, an advantage, a filter or a limit, replayed on what the parent's training recorded."""
    from coevo.backtest.filter import backtest_filter
    from coevo.backtest.limit import backtest_limit
    from coevo.backtest.rescoring import Trained
    from coevo.backtest.reward import backtest_reward
    from coevo.diagnostics.diagnose import training_split

    ledger, config = desk.ledger, desk.config
    old = desk.harness.recipe(ledger.harness)
    before = resolved(old, config)
    after = resolved(apply(proposal.change, old, config, desk.harness.files(ledger.harness)).recipe, config)
    frame = desk.frame(ledger.parent)
    if split := training_split(frame):
        frame = frame.split(split)
    if (before.reward, before.advantage) != (after.reward, after.advantage):
        trained = Trained.of(before)
        return backtest_reward(frame, after.reward, after.advantage, after.filter, trained=trained).to_dict()
    if before.filter != after.filter:
        return backtest_filter(frame, after.filter).to_dict()
    if after.episode.max_tokens < before.episode.max_tokens:
        return backtest_limit(frame, max_tokens=after.episode.max_tokens).to_dict()
    return {"kind": "", "prediction": None, "why": "what was recorded cannot tell of such a change"}
