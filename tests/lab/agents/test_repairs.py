"""Two faults may hide each other: a change that failed is tried again with what its own rollouts ask for."""

from dataclasses import replace

from coevo.diagnostics.types import Level
from coevo.gate.types import Verdict
from coevo.lab.agents.playbook import Playbook
from coevo.lab.proposals import problems_of
from tests.lab.agents.briefing import RECIPE, branch, brief, diagnosis, finding, proposal

LEAKY = {**RECIPE, "lr": 1e-6, "toy": {"bonus": 0.0, "leak": 0.6, "levels": None}}


def test_a_failed_change_comes_back_with_the_repair_its_rollouts_ask_for() -> None:
    failed = branch("b1", "b0", proposal({"lr": 1e-5}), Verdict.REJECTED)
    failed = replace(
        failed,
        diagnosis=diagnosis(finding("public-hidden-gap", Level.CRITICAL), finding("reward-truth-gap", Level.CRITICAL)),
    )
    told = brief(
        finding("learning", Level.WARN),
        finding("public-hidden-gap", Level.OK),
        finding("reward-truth-gap", Level.OK),
        past=(failed,),
        recipe=LEAKY,
        wanted=1,
    )
    found = [Playbook(seed).propose(told)[0] for seed in range(20)]
    repaired = [p for p in found if set(p.change.sets) == {"lr", "toy.leak"}]
    assert len(repaired) > 8
    assert all(problems_of(p, told) == [] for p in repaired)
    assert repaired[0].change.bundle and "b1" in repaired[0].evidence


def test_a_sound_branch_is_not_repaired() -> None:
    kept = branch("b1", "b0", proposal({"lr": 1e-5}), Verdict.PROMOTED)
    told = brief(
        finding("learning", Level.WARN),
        past=(replace(kept, diagnosis=diagnosis(finding("public-hidden-gap", Level.CRITICAL))),),
        recipe=LEAKY,
    )
    assert all(len(p.change.sets) == 1 for seed in range(20) for p in Playbook(seed).propose(told))
