"""A proposal goes back with the name of what it lacks, and its prediction is scored."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coevo.diagnostics.types import Level
from coevo.gate.types import Judgement, Verdict
from coevo.lab.proposals import (
    AgentReply,
    calibration_of,
    diagnostic_proposal_dict,
    diagnostic_proposal_of,
    problems_of,
    proposal_dict,
    proposal_of,
    score,
)
from coevo.lab.types import Change, Family, Prediction, Proposal
from tests.lab.agents.briefing import branch, brief, diagnosis, finding, proposal

BRIEF = brief(finding("dead-groups", Level.CRITICAL))


def test_a_sound_proposal_has_no_problems_and_survives_json() -> None:
    sound = proposal({"lr": 1e-4})
    assert problems_of(sound, BRIEF) == []
    assert proposal_of(json.loads(json.dumps(proposal_dict(sound)))) == sound


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ({"evidence": []}, "evidence"),
        ({"evidence": ["dead-group"]}, "Did you mean 'dead-groups'"),
        ({"prediction": {"metric": "vibes", "direction": "up"}}, "prediction.metric"),
        ({"change": {}}, "change"),
        ({"change": {"sets": {"lr": 1e-4, "toy.bonus": 0.0}}}, "change.bundle"),
        ({"change": {"sets": {"lr": 1e-4, "toy.bonus": 0.0}, "bundle": "both"}}, "change.ablation"),
        ({"change": {"sets": {"gate.alpha": 0.5}}}, "may not change"),
        ({"change": {"files": {"../judge.py": "x"}}}, "may not change"),
        ({"family": "continue"}, "change"),
    ],
)
def test_what_is_missing_is_named(change: dict[str, object], names: str) -> None:
    found = problems_of(proposal_of({**proposal_dict(proposal({"lr": 1e-4})), **change}), BRIEF)
    assert found and names in found[0]


@pytest.mark.parametrize("field", ["family", "hypothesis", "evidence", "change", "prediction", "success", "rollback"])
def test_a_missing_field_is_named(field: str) -> None:
    data = proposal_dict(proposal({"lr": 1e-4}))
    del data[field]
    with pytest.raises(AgentReply, match=field):
        proposal_of(data)


@given(
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)
    )
)
def test_whatever_data_comes_is_a_proposal_or_named(data: object) -> None:
    with pytest.raises(AgentReply):
        proposal_of(data)


def test_a_bundle_with_its_ablation_passes() -> None:
    change = Change(sets={"lr": 1e-4, "toy.bonus": 0.0}, bundle="they need each other", ablation=("lr", "toy.bonus"))
    bundle = Proposal(Family.HYPERPARAMETER, "h", ("dead-groups",), change, Prediction("truth", "up"), "s", "r")
    assert problems_of(bundle, BRIEF) == []


def test_the_same_change_on_the_same_parent_comes_back() -> None:
    once = branch("b1", "b0", proposal({"lr": 1e-4}), Verdict.REJECTED)
    assert "b1" in problems_of(proposal({"lr": 1e-4}), brief(finding("dead-groups", Level.WARN), past=(once,)))[0]


def test_predictions_come_true_by_direction_and_half_their_size() -> None:
    judged = Judgement(Verdict.PROMOTED, (), difference=0.04)
    none = diagnosis()
    assert score(Prediction("truth", "up", 0.08), none, none, judged) is True
    assert score(Prediction("truth", "up", 0.09), none, none, judged) is False
    assert score(Prediction("truth", "down"), none, none, judged) is False
    assert score(Prediction("truth", "up"), none, none, None) is None
    before, after = diagnosis(finding("dead-groups", Level.WARN, 0.5)), diagnosis(finding("dead-groups", Level.OK, 0.2))
    assert score(Prediction("dead-groups", "down", 0.3), before, after, None) is True
    assert score(Prediction("dead-groups", "up"), before, after, None) is False
    assert score(Prediction("truncation", "up"), before, after, None) is None


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=30))
def test_calibration_bounds(scored: list[tuple[float, bool]]) -> None:
    found = calibration_of(scored)
    assert found["n"] == len(scored) and 0 <= found["brier"] <= 1 and 0 <= found["hit_rate"] <= 1


def test_calibration_of_a_perfect_and_of_an_undecided_agent() -> None:
    assert calibration_of([(1.0, True), (0.0, False)])["brier"] == 0
    assert calibration_of([(0.5, True), (0.5, False)])["brier"] == 0.25
    assert calibration_of([]) == {"n": 0}


def test_a_new_diagnostic_needs_one_of_two_forms() -> None:
    data = {
        "id": "x-y",
        "title": "t",
        "formula": "f",
        "means": "m",
        "warn": 0.1,
        "critical": 0.2,
        "term": "mean(reward)",
    }
    made = diagnostic_proposal_of(data)
    assert diagnostic_proposal_of(diagnostic_proposal_dict(made)) == made
    with pytest.raises(AgentReply, match="either"):
        diagnostic_proposal_of({**data, "source_code": "def measure(columns): return 0"})
    with pytest.raises(AgentReply, match="direction"):
        diagnostic_proposal_of({**data, "critical": 0.1})
