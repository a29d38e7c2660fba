"""The round machine on made-up events: whatever happens, the lab goes forward, ends, and stands where its events say."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import settings as bounds
from hypothesis import strategies as st

from coevo.diagnostics.types import Diagnosis
from coevo.errors import StoreError
from coevo.gate.types import Judgement, Look, Verdict
from coevo.lab import rounds
from coevo.lab.launching import CONTROL
from coevo.lab.ledger import Ledger, fold
from coevo.lab.proposals import proposal_dict
from coevo.lab.records import look_dict
from coevo.lab.rounds import next_action
from coevo.lab.settings import LabConfig
from coevo.lab.types import BranchState, Family
from coevo.runs.types import Event
from tests.lab.small_lab import config, proposal

Made = tuple[str, dict[str, Any]]
Choose = Callable[[list[Any]], Any]


def made(action: rounds.Action, ledger: Ledger, settings: LabConfig, choose: Choose) -> Made:
    """An event that carrying out the action may leave."""
    now = ledger.round
    number = now.number if now else 0
    match action:
        case rounds.Launch(name, index):
            told = CONTROL if index is None else now.accepted[index] if now else None
            data = {"name": name, "parent": ledger.parent or None, "round": number, "commit": "c", "run": name}
            data |= {"proposal": proposal_dict(told) if told and now else None, "steps": settings.steps}
            return "branch", data
        case rounds.Train(branches, step):
            if choose([False] * 9 + [True]):
                return "failed", {"branch": branches[0], "why": "x"}
            data = {"branch": branches[0], "step": step, "ended": choose([False, False, True]), "cost": {"tokens": 1}}
            return "trained", {**data, "weights": "w", "timing": {"minutes": 0.1}}
        case rounds.Prune(rung, branches, keep):
            return "pruned", {"rung": rung, "branches": list(branches[keep:]), "promise": {}}
        case rounds.Diagnose(branch):
            return "diagnosed", {"branch": branch, "diagnosis": Diagnosis(()).to_dict()}
        case rounds.Calibrate():
            return "calibrated", {"calibration": None}
        case rounds.OpenRound(number, parent):
            return "round", {"round": number, "parent": parent}
        case rounds.OpenGap(why):
            return "gap", {"why": why}
        case rounds.ProposeDiagnostic():
            return "suggested", {"proposal": choose([None, {"id": "new"}])}
        case rounds.AdmitDiagnostic():
            return "admitted", {"admitted": choose([True, False]), "commit": "c", "proposal": {"id": "new"}}
        case rounds.Propose(_, wanted, _):
            count = choose(list(range(wanted + 1)))
            rows = [{"proposal": proposal_dict(proposal()), "problems": []} for _ in range(count)]
            bad = choose([[], [{"proposal": proposal_dict(proposal()), "problems": ["change: no"]}]])
            return "proposed", {"proposals": rows + bad, "problems": choose([[], ["no JSON"]])}
        case rounds.Backtest(index):
            return "backtested", {"index": index, "result": {}}
        case rounds.AskApproval(stage):
            return "asked", {"stage": stage}
        case rounds.Wait(stage):
            return "answered", {"stage": stage, "yes": choose([True, False])}
        case rounds.Judge(branch):
            looks = len(now.looks.get(branch, ())) if now else 0
            failed = ledger.branches[branch].state is BranchState.FAILED
            if looks < 2 and not failed and choose([True, False]):
                split = choose(["gate", "holdout"])
                return "looked", {
                    "branch": branch,
                    "look": look_dict(Look(split, looks + 1, {"t": (1.0, None)}, {"t": (0.5,)})),
                }
            low = choose([-0.1, 0.1])
            verdict = Verdict.UNMEASURED if failed else choose(list(Verdict))
            judgement = Judgement(verdict, ("why",), difference=low + 0.05, low=low, high=low + 0.1)
            return "judged", {"branch": branch, "judgement": judgement.to_dict()}
        case rounds.EndRound(promoted):
            return "ended", {"promoted": promoted, "commit": "c", "scored": []}
        case rounds.RecordSkills():
            return "skills", {"uses": [], "commit": "c"}
        case rounds.Escalate():
            return "escalated", {
                "text": "t",
                "parent": ledger.parent,
                "commit": "c",
                "recalibrate": choose([True, False]),
            }
        case rounds.Report():
            return "reported", {}
    raise AssertionError(action)


def events_of(
    settings: LabConfig, choose: Choose, *, exhausted: bool = False
) -> tuple[list[Event], list[rounds.Action]]:
    """A whole lab."""
    ledger, actions = Ledger(), []
    events = [Event(1, 0.0, None, "lab", {"version": 1, "commit": "c", "sealed": {}})]
    ledger = fold(events)
    while not isinstance(action := next_action(ledger, settings), rounds.Finish):
        assert len(actions) < 400, "the lab does not come to an end"
        actions.append(action)
        kind, data = made(action, ledger, settings, choose)
        if (
            exhausted
            and not ledger.exhausted
            and not isinstance(action, rounds.Report)
            and choose([False] * 20 + [True])
        ):
            kind, data = "exhausted", {"why": "spent"}
        events.append(Event(len(events) + 1, 0.0, 0, kind, data))
        ledger = fold(events[-1:], ledger)
    return events, actions


labs = st.fixed_dictionaries(
    {
        "branches": st.integers(1, 3),
        "control": st.booleans(),
        "steps": st.sampled_from([1, 2, 6]),
        "frozen_harness": st.booleans(),
        "approve": st.sampled_from(["never", "design", "launch", "promote", "all"]),
        "prune": st.fixed_dictionaries({"rungs": st.integers(0, 2), "keep": st.sampled_from([0.3, 1.0])}),
        "budget": st.fixed_dictionaries({"rounds": st.integers(1, 5), "steps": st.sampled_from([None, 6, 30, 60])}),
    }
)


@bounds(max_examples=60, deadline=None)
@given(labs, st.data())
def test_a_lab_ends_and_stands_where_its_events_say(changes: dict[str, Any], data: st.DataObject) -> None:
    def choose(some: list[Any]) -> Any:
        return data.draw(st.sampled_from(some))

    settings = config(**changes)
    events, actions = events_of(settings, choose, exhausted=True)
    for before, after in itertools.pairwise(actions):
        assert before != after or isinstance(after, rounds.Judge | rounds.Train), "an action was asked for again"
    cut = data.draw(st.integers(0, len(events)))
    whole = fold(events)
    assert fold(events[cut:], fold(events[:cut])) == whole
    assert whole.rounds <= settings.budget.rounds
    assert settings.steps > 1 or not any(isinstance(action, rounds.Prune) for action in actions)
    assert list(whole.branches) == [f"b{i}" for i in range(len(whole.branches))]


@bounds(max_examples=40, deadline=None)
@given(labs, st.data())
def test_steps_are_never_overspent_and_every_round_has_its_control(
    changes: dict[str, Any], data: st.DataObject
) -> None:
    settings = config(**changes)
    events, _actions = events_of(settings, lambda some: data.draw(st.sampled_from(some)))
    ledger = fold(events)
    if settings.budget.steps is not None:
        assert ledger.steps_spent <= max(settings.budget.steps, settings.steps)
    for number in range(1, ledger.rounds + 1):
        made_in = [b for b in ledger.branches.values() if b.round == number]
        controls = [b for b in made_in if b.proposal and b.proposal.family is Family.CONTINUE]
        assert len(controls) == (1 if settings.control and made_in else 0)
        assert made_in[:1] == controls[:1] or not controls
        assert len(made_in) - len(controls) <= settings.branches


def happy(*, verdicts: dict[str, Judgement], **changes: Any) -> list[rounds.Action]:
    """Actions of a lab in which everything works, with these verdicts by branch."""
    settings = config(prune={"rungs": 0}, **changes)
    ledger, actions = fold([Event(1, 0.0, None, "lab", {"version": 1, "commit": "c", "sealed": {}})]), []
    while not isinstance(action := next_action(ledger, settings), rounds.Finish):
        actions.append(action)
        kind, data = made(action, ledger, settings, lambda some: some[0])
        if isinstance(action, rounds.Propose):
            rows = [{"proposal": proposal_dict(proposal()), "problems": []} for _ in range(action.wanted)]
            data = {"proposals": rows, "problems": []}
        if isinstance(action, rounds.Judge):
            said = verdicts.get(action.branch, Judgement(Verdict.INCONCLUSIVE, (), difference=0.01, low=-0.1, high=0.1))
            kind, data = "judged", {"branch": action.branch, "judgement": said.to_dict()}
        ledger = fold([Event(0, 0.0, 0, kind, data)], ledger)
    return actions


def gained(low: float) -> Judgement:
    return Judgement(Verdict.PROMOTED, (), difference=low + 0.1, low=low, high=low + 0.2)


def test_children_are_held_against_the_control_and_the_surest_gain_wins() -> None:
    actions = happy(verdicts={"b2": gained(0.1), "b3": gained(0.2)}, branches=2)
    judged = [(a.branch, a.against) for a in actions if isinstance(a, rounds.Judge)]
    assert judged == [("b1", "b0"), ("b2", "b1"), ("b3", "b1")]
    assert next(a for a in actions if isinstance(a, rounds.EndRound)).promoted == "b3"


def test_a_control_that_lost_is_no_yardstick() -> None:
    lost = Judgement(Verdict.REJECTED, (), difference=-0.2, low=-0.3, high=-0.1)
    actions = happy(verdicts={"b1": lost})
    assert [a.against for a in actions if isinstance(a, rounds.Judge)] == ["b0", "b0"]


def test_going_on_is_promoted_where_no_change_is() -> None:
    actions = happy(verdicts={"b1": gained(0.05)})
    assert next(a for a in actions if isinstance(a, rounds.EndRound)).promoted == "b1"


def test_three_failed_rounds_escalate_and_check_the_judge_again() -> None:
    actions = happy(verdicts={}, budget={"rounds": 5})
    escalated = [i for i, a in enumerate(actions) if isinstance(a, rounds.Escalate)]
    assert [actions[i].failures for i in escalated] == [3, 4, 5]  # type: ignore[union-attr]
    assert sum(isinstance(a, rounds.Calibrate) for a in actions) > 1


def test_a_harmful_branch_without_a_warning_is_a_gap_unless_the_harness_is_frozen() -> None:
    bad = Judgement(Verdict.INVALID, ("it read the answers",))
    assert any(isinstance(a, rounds.OpenGap) for a in happy(verdicts={"b2": bad}, budget={"rounds": 2}))
    frozen = happy(verdicts={"b2": bad}, budget={"rounds": 2}, frozen_harness=True)
    assert not any(isinstance(a, rounds.OpenGap) for a in frozen)


def test_events_of_a_newer_lab_are_refused() -> None:
    with pytest.raises(StoreError, match="newer"):
        fold([Event(1, 0.0, None, "lab", {"version": 99, "commit": "c", "sealed": {}})])
