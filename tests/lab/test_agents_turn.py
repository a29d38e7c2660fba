"""What an agent is shown, what is kept of what it said, and what an outage costs."""

import json
import shutil
from pathlib import Path

import pytest

from coevo.errors import ModelError
from coevo.gate.types import Verdict
from coevo.lab.agents.model import ModelAgent
from coevo.lab.branches import Branches
from coevo.lab.designing import open_files
from coevo.lab.driver import new_lab, run_lab
from coevo.lab.harness import Harness
from coevo.lab.ledger import Ledger
from coevo.lab.proposals import proposal_dict
from coevo.lab.types import Branch, BranchState, Change
from coevo.models.scripted import ScriptedModel
from coevo.runs import Run
from tests.lab.small_lab import Plan, config, proposal
from tests.lab.test_driver import says

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs the git binary")

MINE = "def fitness(sample):\n    return sample.fitness or 0.0\n"


def test_files_that_may_change_are_shown_and_no_others(tmp_path: Path) -> None:
    harness = Harness(tmp_path)
    commit = harness.commit(harness.begin({}), {"rewards/a.py": "A\n", "diagnostics/d.json": "{}\n"}, "files")
    assert open_files(harness, commit, {"rewards/*.py": "rewards", "lr": "rate"}) == {"rewards/a.py": "A\n"}
    assert open_files(harness, commit, {"lr": "rate"}) == {}


def test_a_promoted_file_is_in_the_next_brief(tmp_path: Path) -> None:
    change = Change(
        sets={"reward.parts": {"rewards/mine.py:fitness": 1.0}},
        files={"rewards/mine.py": MINE},
        bundle="the recipe names the file",
        ablation=("reward.parts", "rewards/mine.py"),
    )
    agent = Plan([[proposal(change=change)], []])
    new_lab(config(allowed={"rewards/*.py": "reward functions"}, budget={"rounds": 2}), tmp_path / "lab")
    run_lab(tmp_path / "lab", agent=agent, gate=says(Verdict.PROMOTED))
    assert [dict(brief.files) for brief in agent.briefs[:1]] == [{}]
    assert dict(agent.briefs[-1].files) == {"rewards/mine.py": MINE}
    assert agent.briefs[-1].to_dict()["files"] == {"rewards/mine.py": MINE}


def test_what_a_model_said_is_kept_word_by_word(tmp_path: Path) -> None:
    reply = "I think so.\n" + json.dumps({"proposals": [proposal_dict(proposal())]})
    new_lab(config(), tmp_path / "lab")
    run_lab(tmp_path / "lab", agent=ModelAgent(ScriptedModel([reply]), seed=0), gate=says(Verdict.REJECTED))
    with Run.open(tmp_path / "lab", write=False) as run:
        [turn] = [event.payload for event in run.events(kinds=("proposed",))]
        assert turn["replies"] == [reply]
        assert run.completion(turn["brief"]) is not None


class _Away(Branches):
    """Branches whose server is gone."""

    def _go(self, *given):
        raise ModelError("the server at http://127.0.0.1:9 is away")


def test_an_outage_is_no_word_on_the_branch(tmp_path: Path) -> None:
    made = Branch("b1", "b0", 1, proposal(), "c0ffee", BranchState.TRAINING)
    ledger = Ledger(branches={"b1": made}, wanted={"b1": 6}, steps={"b1": 0})
    with pytest.raises(ModelError, match="away"):
        _Away(tmp_path, config(), Harness(tmp_path)).train_one(ledger, made, 6, {})
