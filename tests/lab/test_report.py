"""What a person is told of a lab: while it runs, and when it has ended."""

from __future__ import annotations

import json
import shlex
import shutil
from pathlib import Path
from typing import Any, get_args

import pytest
import yaml
from typer.testing import CliRunner

from coevo.cli.lab import NEXT
from coevo.cli.main import app
from coevo.lab import picture
from coevo.lab.rounds import Action
from coevo.lab.telling import about, moved, outcome
from tests.lab.small_lab import SMALL

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs the git binary")


def call(*words: str) -> str:
    found = CliRunner().invoke(app, list(words))
    assert found.exit_code == 0, (found.output, found.exception)
    return found.output


def row(name: str, *, change: str = "lr = 0.1", round: int = 1, **more: Any) -> dict[str, Any]:
    found = {"branch": name, "round": round, "change": change, "parent": "b0", "against": None, "verdict": "rejected"}
    family = "continue" if change == "continue" else "hyperparameter"
    return {**found, "family": family, "difference": None, "low": None, "high": None, **more}


def test_a_lab_says_what_it_found_how_it_is_used_and_how_it_is_done_again(tmp_path: Path) -> None:
    settings, lab = tmp_path / "lab.yaml", tmp_path / "my lab"
    settings.write_text(json.dumps(SMALL))
    said = call("lab", "run", str(lab), "--config", str(settings))
    assert said.startswith("budget: 1 round (6 steps first") and "1 rounds" not in said
    assert "change of the recipe tried, " in said and "no model to load" in said and "ended: finished" in said
    data = json.loads(call("lab", "report", str(lab), "--json"))
    recipe = data["use"]["recipe"].split("#")[0]
    assert shlex.split(recipe)[2] == str(lab / "harness"), "a path with a space can be pasted"
    text = (lab / "artifacts" / "report.md").read_text(encoding="utf-8")
    for piece in (*data["use"].values(), data["commands"]["again"], "optimizer steps"):
        assert piece in text
    again = shlex.split(data["commands"]["again"])
    assert again[:3] == ["coevo", "lab", "run"]
    call("lab", "new", str(tmp_path / "again"), *again[4:])
    ours, theirs = ((tmp_path / name / "run.yaml").read_text() for name in ("my lab", "again"))
    assert yaml.safe_load(ours) == yaml.safe_load(theirs)
    page = call("lab", "status", str(lab))
    assert "next: finish (nothing is left to do" in page and "\nkept: " in page and "left:" not in page
    assert call("lab", "report", str(lab)).splitlines()[0].split("\t")[-1] == "difference in truth [95 %]"


def test_before_its_end_a_lab_says_how_long_the_rest_takes(tmp_path: Path) -> None:
    lab = str(tmp_path / "lab")
    settings = tmp_path / "lab.yaml"
    settings.write_text(json.dumps({**SMALL, "calibration": 0}))
    call("lab", "new", lab, "--config", str(settings), "--set", "approve=design")
    assert "left:" not in call("lab", "status", lab), "nothing was trained: nobody knows"
    assert CliRunner().invoke(app, ["lab", "run", lab]).exit_code == 4
    page = call("lab", "status", lab)
    assert "\nleft: " in page and "coevo lab approve LAB" in page
    told = call("lab", "report", lab)
    assert "the lab has not ended" in told and f"next: coevo lab resume {lab}" in told


def test_every_action_has_its_words() -> None:
    assert {action.__name__.lower() for action in get_args(Action)} == set(NEXT)


def test_what_rounds_came_to_in_words() -> None:
    rows = [row("b1", change="continue"), row("b2"), row("b3", round=2, change="filter.name = 'none'")]
    assert outcome(rows, ["b3"]) == "2 changes of the recipe tried, 1 kept: filter.name = 'none' (round 2, b3)."
    assert "better than the start is so by more steps" in outcome(rows, ["b1"])
    assert outcome(rows[:2], []).startswith("1 change of the recipe tried, none kept")
    assert moved(row("b", difference=-1e-9, low=-0.2, high=1e-9)) == "0.0000 [-0.2000, 0.0000]"
    assert [about(m) for m in (0.0, 0.5, 12.4, 150)] == ["1 s", "30 s", "12 min", "2.5 h"]


def test_the_picture_stands_branches_on_what_they_were_held_against(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="pictures need matplotlib (extra plot)")
    rows = [
        row("b1", change="continue", verdict="promoted", difference=0.2, low=0.1, high=0.3, against="b0"),
        row("b2", verdict="invalid", difference=-0.1, low=-0.2, high=0.0, against="b1"),
        row("b3", round=2, parent="b1", verdict=None, change="reward.parts = {'absolute': 1.0, 'a_long_name.py': 2}"),
    ]
    assert picture.heights(rows) == pytest.approx({"b0": 0.0, "b1": 0.2, "b2": 0.1, "b3": 0.2})
    data = {"lab": "x", "rounds": rows, "kept": ["b1"], "final": {}}
    assert picture.draw(data, tmp_path / "p.png") == "" and (tmp_path / "p.png").stat().st_size > 5000
    assert [path.name for path in tmp_path.iterdir()] == ["p.png"]
    assert "no round" in picture.draw({**data, "rounds": []}, tmp_path / "q.png")
