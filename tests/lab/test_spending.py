"""A branch may not buy its gain: what is fixed beforehand is refused, what training spent is held against the control."""

from __future__ import annotations

from pathlib import Path

import pytest

from coevo.errors import UsageError
from coevo.lab.driver import new_lab, read_lab, run_lab
from coevo.lab.interventions import apply, lean
from coevo.lab.report import markdown, report_of
from coevo.lab.spending import Spent, overspent, spending, told
from coevo.lab.types import Branch, BranchState, Change, Family
from coevo.runs import Run
from tests.lab.small_lab import Plan, config, proposal

LAB = config()


def branch(**cost: float) -> Branch:
    return Branch("b1", "b0", 1, None, "c", BranchState.TRAINED, cost=cost)


def test_more_passes_than_the_first_recipe_are_refused() -> None:
    with pytest.raises(UsageError, match=r"epochs = 2 .* more optimizer passes a step than the first recipe's 16"):
        apply(Change(sets={"epochs": 2}), lean(LAB.recipe), LAB)
    halved = Change(
        sets={"epochs": 2, "groups": 2}, bundle="as many passes over fewer rows", ablation=("epochs", "groups")
    )
    assert set(apply(halved, lean(LAB.recipe), LAB).changed) == {"epochs", "groups"}


def test_what_the_yardstick_did_not_count_says_nothing() -> None:
    found = spending(branch(tokens=300.0, evaluations=8.0), branch(tokens=100.0))
    assert found == (Spent("tokens", 300.0, 100.0, 3.0),)
    assert "3.00 times the control's tokens (300 to 100)" in overspent(found, 2.0)
    assert not overspent(found, 3.0) and not overspent(found, None)
    assert told({"tokens": 3.0}) == "3.00 x tokens"


def test_a_branch_that_spent_more_than_its_control_is_rejected_unmeasured(tmp_path: Path) -> None:
    """Dropped groups are drawn again, up to seven times each: with ties in many groups, that is more rollouts than without."""
    recipe = {"toy": {"noise": 0.0, "levels": 3}, "filter": {"replace": 0}}
    more = proposal({"filter.replace": 7}, family=Family.FILTER)
    settings = config(recipe=recipe, calibration=0, spend=1)
    new_lab(settings, tmp_path / "lab")
    run_lab(tmp_path / "lab", agent=Plan([[more]]))
    _, ledger = read_lab(tmp_path / "lab")
    with Run.open(tmp_path / "lab", write=False) as run:
        data = {**report_of(run, settings), "picture": ""}
        looks = [event.payload["branch"] for event in run.events(kinds=("looked",))]
    bought = next(b for b in ledger.branches.values() if b.proposal and b.proposal.change.sets)
    row = next(row for row in data["rounds"] if row["branch"] == bought.name)
    times = row["spent"]["evaluations"]
    assert row["verdict"] == "rejected" and times > 1
    assert bought.judgement is not None and "setting `spend`" in bought.judgement.reasons[0]
    assert bought.name not in looks
    assert f"{bought.name} {times:.2f} x programs judged" in markdown(data)
