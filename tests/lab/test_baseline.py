"""The base weights as a yardstick: a policy that its first recipe spoilt is known by measurement, and the report says what all the training was worth."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from coevo.lab.agents.playbook import Playbook, spoilt_by
from coevo.lab.baseline import against_base, baseline_of
from coevo.lab.driver import new_lab, read_lab, run_lab
from coevo.runs import Run
from tests.lab.small_lab import Plan, config


def test_differences_are_paired_by_task_and_unmeasured_samples_left_out() -> None:
    base = {"a": (0.2, None), "b": (0.5, 0.7), "c": (None,), "d": (0.1,)}
    trained = {"a": (0.1, 0.1), "b": (0.4,), "c": (0.9,), "d": (None,)}
    found = against_base("b1", base, trained, seed=0)
    assert found is not None and found.tasks == 2
    assert found.base == pytest.approx(0.4) and found.difference == pytest.approx(-0.15)
    assert found.low <= found.difference <= found.high and found.spoilt
    assert baseline_of(found.to_dict()) == found
    assert against_base("b1", {"a": (0.2,)}, {"a": (0.3,)}, seed=0) is None and baseline_of(None) is None


@pytest.mark.skipif(shutil.which("git") is None, reason="needs the git binary")
@pytest.mark.parametrize(
    ("recipe", "spoilt"),
    [({"lr": 3e-4, "groups": 8, "group_size": 8, "toy": {"bonus": 0.5}}, True), ({"lr": 3e-5}, False)],
)
def test_a_spoilt_start_is_measured_told_and_left(tmp_path: Path, recipe: dict, spoilt: bool) -> None:
    agent = Plan([])
    settings = config(recipe=recipe, steps=24 if spoilt else 6, calibration=10)
    new_lab(settings, tmp_path / "lab")
    run_lab(tmp_path / "lab", agent=agent)
    _, ledger = read_lab(tmp_path / "lab")
    brief = agent.briefs[0]
    assert brief.base is not None and brief.base == ledger.base and brief.base.spoilt is spoilt
    assert brief.to_dict()["base"]["difference"] == brief.base.difference
    changes = [p.change for p in Playbook(0).propose(brief)]
    assert changes and bool(spoilt_by(brief)) == spoilt
    assert all(dict(change.weights) == ({"from": "base"} if spoilt else {}) for change in changes)
    report = json.loads((tmp_path / "lab" / "artifacts" / "report.json").read_text())
    final = report["final"]["base"]
    assert final["branch"] == ledger.parent and (final["high"] < 0) is spoilt, "on tasks that chose nothing"
    assert ("worse than before any training" in (tmp_path / "lab" / "artifacts" / "report.md").read_text()) is spoilt
    with Run.open(tmp_path / "lab", write=False) as run:
        rows = [row for row in run.rollouts(split="calibration") if row["branch"] == "base"]
    assert {row["look"] for row in rows} == {3}
