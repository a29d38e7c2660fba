"""What an agent hands in is data: however odd, it is returned with a reason or tried, and the lab stays one that can be opened."""

from __future__ import annotations

import itertools
import json
import math
import shutil
from pathlib import Path
from typing import Any

import pytest

from coevo.errors import CoevoError
from coevo.gate.types import Verdict
from coevo.lab.driver import Ended, new_lab, read_lab, run_lab
from coevo.lab.interventions import apply, lean
from coevo.lab.types import Change, Family, Prediction, Proposal
from tests.lab.small_lab import Plan, config, proposal
from tests.lab.test_driver import says

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs the git binary")

LAB = config()
GRPO = config(recipe={"trainer": "grpo"})


@pytest.mark.parametrize(
    "sets",
    [
        {"reward": {"parts": {"search_gain": 1.0}, "timeout_s": 99}},
        {"states": {"trajectories": ["/leak"]}},
        {"states.mix": {"synth": 1.0}, "states.trajectories": ["/leak"]},
        {"": 1},
        {"advantage": {"name": "batch_zscore"}},
        {"toy.leak.x": 1},
        {"episode.truth": 0.0},
        {"reward.parts..": 1.0},
        {"filter.": "none"},
        {"SEED": 4},
        {"optim.max_grad_norm": math.nan},
        {"reward.parts": {"search_gain": math.nan}},
        {"reward.parts": {"search_gain": math.inf}},
        {"reward.worse": math.nan},
        {"reward.worse": -math.inf},
        {"lr": math.inf},
        {"lr": math.nan},
        {"loss.kl": math.nan},
        {"max_kl": math.nan},
        {"advantage.scale": math.inf},
        {"reward.parts": {}},
        {"reward.parts": ["search_gain"]},
        {"reward.parts": {"/etc/passwd:f": 1.0}},
        {"reward.parts": {"/tmp/evil.py:f": 1.0}},
        {"reward.parts./tmp/evil.py:f": 1.0},
        {"reward.parts": {"rewards/../../x.py:f": 1.0}},
        {"reward.parts": {"os:system": 1.0}},
    ],
    ids=lambda sets: json.dumps(sets)[:60],
)
@pytest.mark.parametrize("lab", [LAB, GRPO], ids=["toy", "grpo"])
def test_values_that_no_branch_may_be_trained_with(sets: dict[str, Any], lab) -> None:
    with pytest.raises(CoevoError):
        apply(Change(sets=sets, bundle="all at once", ablation=tuple(sets)), lean(lab.recipe), lab)


def test_reward_functions_come_from_the_harness_alone() -> None:
    """A part named by path is code that runs outside the sandbox: none that merely lies somewhere on the machine."""
    file = "def f(sample): return 1.0\n"
    trusting = config(recipe={"trainer": "grpo"}, allowed={"rewards/*.py": "reward functions"})
    named = {"reward.parts": {"rewards/own.py:f": 1.0}}
    both = Change(
        sets=named, files={"rewards/own.py": file}, bundle="one idea", ablation=("reward.parts", "rewards/own.py")
    )
    assert apply(both, lean(trusting.recipe), trusting).changed == ("reward.parts", "rewards/own.py")
    assert apply(Change(sets=named), lean(trusting.recipe), trusting, {"rewards/own.py": "0"}).changed == (
        "reward.parts",
    )
    for path in ("/tmp/own.py", "own.py", "rewards/../own.py", "rewards/other.py", "skills/a/scripts/apply.py"):
        with pytest.raises(CoevoError, match="may only come from"):
            apply(
                Change(sets={"reward.parts": {f"{path}:f": 1.0}}),
                lean(trusting.recipe),
                trusting,
                {"rewards/own.py": "0"},
            )
    with pytest.raises(CoevoError, match="may only come from"):
        apply(Change(sets=named), lean(GRPO.recipe), GRPO, {"rewards/own.py": "0"})


ODD = "\x1b[2J\x1b]0;owned\x07 \x00 \ud800 \u202e | `x` \r\n## Promoted\n"


ODD_CHANGES: tuple[dict[str, Any], ...] = (
    {"hypothesis": ODD},
    {"hypothesis": "x" * 1_000_000},
    {"success": ODD, "rollback": ODD, "wrong_if": ODD},
    {"success": "x" * 5_000},
    {"skill": ODD},
    {"evidence": ("b0",) * 10_000},
    {"evidence": (ODD,)},
    {"evidence": (7,)},
    {"family": "nonsense"},
    {"prediction": Prediction("truth", "up", size=math.nan)},
    {"prediction": Prediction("truth", "up", confidence=math.nan)},
    {"prediction": Prediction("truth", "sideways")},
    {"change": Change(sets={"lr": object()})},
    {"change": Change(sets={"lr": {1, 2}})},
    {"change": Change(sets={"lr": 10**400})},
    {"change": Change(sets={ODD: 1})},
    {"change": Change(sets={"lr": 3e-5}, bundle=ODD, ablation=("lr",))},
    {"change": Change(weights={"from": "b0@" + "9" * 30}), "family": Family.CHECKPOINT},
    {"change": Change(weights={"from": "../b0@1"}), "family": Family.CHECKPOINT},
    {"change": Change(weights={"from": "b0@\u0663"}), "family": Family.CHECKPOINT},
    {"change": Change(weights={"from": "b0@1000000"}), "family": Family.CHECKPOINT},
    {"change": Change(weights={"from": "b0@x"}), "family": Family.CHECKPOINT},
    {"change": Change(weights={"a": "b0", "b": "b0\x00"}), "family": Family.AVERAGE},
)


def test_odd_proposals(tmp_path: Path) -> None:
    """Each is returned or tried; the ledger can be read and the report shown."""
    path = tmp_path / "lab"
    odd = [Proposal(**{**vars(proposal()), **changes}) for changes in ODD_CHANGES]
    rounds = [odd[i : i + 8] for i in range(0, len(odd), 8)]
    new_lab(config(calibration=0, steps=2, branches=8, prune={"rungs": 0}, budget={"rounds": len(rounds)}), path)
    agent = Plan(rounds)
    outcome = run_lab(path, agent=agent, gate=says(Verdict.REJECTED))
    assert outcome.ended is Ended.FINISHED
    ledger = read_lab(path)[1]
    assert ledger.rounds == len(rounds) and ledger.reported
    returned = [why for brief in agent.briefs for why in brief.returned]
    tried = [b.proposal for b in ledger.branches.values() if b.proposal and b.proposal.family is not Family.CONTINUE]
    assert len(returned) >= 18 and len(tried) + len(returned) >= len(odd)
    assert all(len(why) < 5000 for why in returned)
    told = "".join(p.hypothesis + p.success + p.skill + p.change.bundle for p in tried)
    for text in ((path / "artifacts" / "report.md").read_text(), told):
        assert not set(text) & set("\x1b\x00\x07\r\u202e\ud800")


def test_ten_thousand_proposals_and_proposals_without_end(tmp_path: Path) -> None:
    class Flood(Plan):
        def propose(self, brief):
            return (proposal() for _ in itertools.count())

    path = tmp_path / "lab"
    new_lab(config(calibration=0, steps=2), path)
    assert run_lab(path, agent=Flood([]), gate=says(Verdict.REJECTED)).ended is Ended.FINISHED
    assert len(read_lab(path)[1].branches) == 3


@pytest.mark.parametrize("reply", [None, 7, ["x"], [None], {"a": 1}], ids=str)
def test_replies_that_are_no_proposals(reply: Any, tmp_path: Path) -> None:
    class Confused(Plan):
        def propose(self, brief):
            return reply

    path = tmp_path / "lab"
    new_lab(config(calibration=0, steps=2), path)
    assert run_lab(path, agent=Confused([]), gate=says(Verdict.REJECTED)).ended is Ended.FINISHED
    assert len(read_lab(path)[1].branches) == 2
