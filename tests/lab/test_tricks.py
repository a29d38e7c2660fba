"""Tricks to have a branch promoted that is not better: by bad weights, by a bad yardstick, by how the gate asks. None works."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from coevo.config import parse
from coevo.errors import GateBlocked
from coevo.gate.types import Ask, Judgement, Seen, Verdict
from coevo.lab.apart import require_own_tests
from coevo.lab.branches import Branches
from coevo.lab.designing import unsound
from coevo.lab.driver import new_lab, read_lab, run_lab
from coevo.lab.harness import Harness
from coevo.lab.types import Branch, BranchState, Change, Family
from coevo.runs import Run
from coevo.tasks.loader import load_task
from coevo.training.opening import KIND, Setup
from coevo.training.settings import Recipe
from tests.lab.small_lab import Plan, config, proposal
from tests.lab.test_driver import says
from tests.lab.test_tampering import better_weights, judged_after

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs the git binary")


def test_weights_of_an_invalid_branch_are_used_by_no_other(tmp_path: Path) -> None:
    """The gate looks at what a child's own training left. What a branch did wrong is in its weights, and in nobody's rollouts after it."""
    path = tmp_path / "lab"
    tainted = (
        proposal(change=Change(weights={"from": "b2@3"}), family=Family.CHECKPOINT),
        proposal(change=Change(weights={"a": "b1", "b": "b2", "share": "0.99"}), family=Family.AVERAGE),
    )
    new_lab(config(calibration=0, branches=2, budget={"rounds": 2}, prune={"rungs": 0}), path)
    agent = Plan([[proposal()], tainted])
    run_lab(path, agent=agent, gate=says(Verdict.INVALID))
    returned = [why for brief in agent.briefs for why in brief.returned]
    assert len(returned) == 2 and all("'b2'" in why and "invalid" in why and "as told" in why for why in returned)
    assert {b.proposal.family for b in read_lab(path)[1].branches.values() if b.round == 2 and b.proposal} == {
        Family.CONTINUE
    }


def test_weights_edited_before_another_branch_begins_with_them(tmp_path: Path) -> None:
    """An old branch of an earlier round, which nobody judges any more: its digests were taken when its training had ended."""
    path = tmp_path / "lab"
    late = proposal(change=Change(weights={"from": "b2@3"}), family=Family.CHECKPOINT)
    new_lab(config(calibration=0, budget={"rounds": 2}, prune={"rungs": 0}), path)
    agent = Plan([[proposal()], [late]])
    while read_lab(path)[1].rounds < 1:
        run_lab(path, agent=agent, actions=1, gate=says(Verdict.REJECTED))
    better_weights(path, "b2", 50.0)
    ledger = run_lab(path, agent=agent).ledger
    child = ledger.branches["b4"].judgement
    assert child is not None and child.verdict is Verdict.INVALID and ledger.parent == "b0"
    assert any(c.name == "integrity.record" and "(b2)" in c.reason for c in child.checks), child.reasons


def test_how_a_policy_is_asked_is_recorded_with_its_weights(tmp_path: Path) -> None:
    """A template or settings of generation that were edited after training had ended, beside weights that nobody touched."""
    folder = tmp_path / "model"
    folder.mkdir()
    for name in ("config.json", "tokenizer_config.json", "generation_config.json", "chat_template.jinja", "coevo.json"):
        (folder / name).write_text("{}")
    lab = config()
    branches = Branches(tmp_path, lab, Harness(tmp_path))
    setup = Setup(recipe=parse(Recipe, {"trainer": "grpo"}, where="test"), weights=str(folder))
    Run.create(branches.path("b0"), kind=KIND, config=setup.model_dump(mode="json")).close()
    before = branches.asked_with("b0")
    assert before and before == branches.asked_with("b0")
    (folder / "coevo.json").write_text("{ }")
    assert branches.asked_with("b0") == before
    for name in ("tokenizer_config.json", "generation_config.json", "chat_template.jinja"):
        text = (folder / name).read_text()
        (folder / name).write_text('{"temperature": 0.1}')
        assert branches.asked_with("b0") != before
        (folder / name).write_text(text)
    (folder / "modeling_own.py").write_text("raise SystemExit")
    assert branches.asked_with("b0") != before


@pytest.mark.parametrize("state", [BranchState.FAILED, BranchState.PRUNED])
def test_weights_that_no_gate_has_looked_at_are_used_by_no_other(state: BranchState) -> None:
    made = Branch(name="b2", parent="b0", round=1, proposal=None, commit="", state=state, run="branches/b2")
    assert unsound(made)


def test_a_spoilt_control_is_no_weaker_yardstick(tmp_path: Path) -> None:
    """Held against the parent instead, a child would win by what more steps alone do."""
    found = judged_after(tmp_path / "lab", lambda path: better_weights(path, "b1", 0.0))
    assert found.judgement is not None and found.judgement.verdict is Verdict.UNMEASURED
    assert "control b1 is no yardstick" in found.judgement.reasons[0]
    ledger = read_lab(tmp_path / "lab")[1]
    control = ledger.branches["b1"].judgement
    assert control is not None and control.verdict is Verdict.INVALID and ledger.parent == "b0"


def test_what_a_child_gains_over_its_parent_is_not_said_of_the_change_alone(tmp_path: Path) -> None:
    """Where going on lost, children are held against the parent: the verdict says so, and what a skill is credited with knows what the control did."""

    def gate(settings, seen: Seen) -> Ask | Judgement:
        if seen.child.declared == ():
            return Judgement(Verdict.INCONCLUSIVE, ("as told",), difference=-0.04, low=-0.1, high=0.02)
        return Judgement(Verdict.PROMOTED, ("as told",), difference=0.05, low=0.01, high=0.09)

    path = tmp_path / "lab"
    new_lab(config(calibration=0), path)
    run_lab(path, agent=Plan([[proposal(skill="more-rate")]]), gate=gate)
    judgement = read_lab(path)[1].branches["b2"].judgement
    assert (
        judgement is not None and "held against b0, not the control b1 (inconclusive, -0.040)" in judgement.reasons[-1]
    )
    with Run.open(path, write=False) as run:
        (event,) = run.events(kinds=("skills",))
    assert [use["control"] for use in event.payload["uses"]] == [-0.04]


# Tasks


def task(folder: Path, tests: Sequence[Mapping[str, Any]], *, spaces: str = "") -> Any:
    """A task that is what its tests say."""
    folder.mkdir(parents=True)
    text = {"name": folder.name, "kind": "function", "entry": "solve", "statement": f"Task {folder.name}."}
    (folder / "task.yaml").write_text(json.dumps(text))
    (folder / "program.py").write_text("def solve(n):\n    return n\n")
    lines = (json.dumps(one, separators=(f",{spaces}", f":{spaces}")) for one in tests)
    (folder / "tests.jsonl").write_text("".join(f"{line}\n" for line in lines))
    return load_task(str(folder), lazy=True)


def cases_of(factor: int, n: int = 20) -> list[dict[str, Any]]:
    return [{"split": "hidden" if i else "public", "args": [i], "expected": i * factor} for i in range(n)]


def test_a_gate_task_in_another_dress_is_not_trained_on(tmp_path: Path) -> None:
    """Another name, statement and layout; tests in another order, called otherwise, public where they were hidden, and one of them exchanged."""
    gate = task(tmp_path / "gate" / "triple", cases_of(3))
    dressed = [{**one, "split": "public", "name": f"t{i}"} for i, one in enumerate(reversed(cases_of(3)))]
    dressed[4] = {**dressed[4], "args": [99], "expected": 297}
    same = task(tmp_path / "train" / "dressed", dressed, spaces=" ")
    with pytest.raises(GateBlocked, match=r"'triple' of tasks\.gate and 'dressed' of tasks\.train"):
        require_own_tests({"train": [same], "gate": [gate]})
    require_own_tests({"gate": [gate, same]})
    half = task(tmp_path / "train" / "half", [*cases_of(3)[:10], *cases_of(4)[10:]])
    few = task(tmp_path / "train" / "few", cases_of(3, n=4))
    require_own_tests({"train": [half, few], "gate": [gate]})
