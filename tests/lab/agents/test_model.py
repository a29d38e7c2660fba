"""An agent that is a model: typed replies, repairs, and what they cost."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coevo.diagnostics.types import Level
from coevo.errors import ModelError
from coevo.lab.agents.model import ModelAgent, json_object
from coevo.lab.proposals import AgentReply, proposal_dict
from coevo.models import Request
from coevo.models.scripted import Scripted, ScriptedModel
from tests.lab.agents.briefing import brief, finding, proposal

BRIEF = brief(finding("dead-groups", Level.CRITICAL))
SOUND = proposal_dict(proposal({"lr": 1e-4}))


def agent(*replies: str | Scripted) -> tuple[ModelAgent, list[Request]]:
    seen: list[Request] = []

    def answer(request: Request) -> str | Scripted:
        seen.append(request)
        return replies[min(len(seen), len(replies)) - 1]

    return ModelAgent(ScriptedModel(answer), seed=0), seen


def test_a_reply_in_prose_and_fences_is_read() -> None:
    thinker, seen = agent(f"Let me think {{not json}}.\n```json\n{json.dumps({'proposals': [SOUND]})}\n```\nDone.")
    assert thinker.propose(BRIEF) == [proposal({"lr": 1e-4})]
    assert "dead-groups" in seen[0].messages[1].content
    spent = thinker.spent()
    assert spent["tokens"] > 0
    assert thinker.spent()["tokens"] == 0


def test_what_is_missing_is_asked_for_again_and_named() -> None:
    broken = {name: value for name, value in SOUND.items() if name != "prediction"}
    uncited = {**SOUND, "evidence": []}
    thinker, seen = agent(
        json.dumps({"proposals": [broken]}), json.dumps({"proposals": [uncited]}), json.dumps({"proposals": [SOUND]})
    )
    assert len(thinker.propose(BRIEF)) == 1
    assert "prediction" in seen[1].messages[-1].content
    assert "evidence" in seen[2].messages[-1].content
    assert [m["role"] for m in thinker.transcript] == ["system", *["user", "assistant"] * 3]


def test_after_the_last_repair_the_lab_is_told() -> None:
    thinker, seen = agent("no")
    with pytest.raises(AgentReply, match="no JSON object"):
        thinker.propose(BRIEF)
    assert len(seen) == 3


def test_a_model_that_fails_or_refuses_is_infrastructure() -> None:
    thinker, _ = agent(Scripted(error="endpoint is down"))
    with pytest.raises(ModelError, match="endpoint is down"):
        thinker.propose(BRIEF)


def test_a_diagnostic_may_be_none_or_code() -> None:
    thinker, _ = agent('{"diagnostic": null}')
    assert thinker.propose_diagnostic(BRIEF, "gap") is None
    made = {
        "id": "gap-of-gaps",
        "title": "t",
        "formula": "f",
        "means": "m",
        "warn": 1,
        "critical": 2,
        "source_code": "def measure(columns): return 0.0",
    }
    thinker, seen = agent(json.dumps({"diagnostic": made}))
    found = thinker.propose_diagnostic(BRIEF, "scores cannot decide")
    assert found is not None and found.source_code.startswith("def measure")
    assert "scores cannot decide" in seen[0].messages[1].content


@given(st.text(max_size=300) | st.text(alphabet='{}[]":,a1\\', max_size=300))
def test_any_text_is_an_object_or_a_named_problem(text: str) -> None:
    try:
        found = json_object(text)
    except AgentReply:
        return
    assert isinstance(found, dict)
