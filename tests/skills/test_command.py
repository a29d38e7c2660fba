"""`coevo skills`, from its arguments to what it prints and the code it ends with."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from coevo.cli import main
from coevo.runs import Run
from coevo.skills.evidence import USED, use_row
from coevo.skills.reading import problems
from coevo.skills.store import shipped
from coevo.skills.types import Outcome, Use
from tests.skills.making import skill_folder


class Said(NamedTuple):
    code: int
    out: str
    err: str


Coevo = Callable[..., Said]


@pytest.fixture
def coevo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Coevo:
    """`coevo("skills", ...)` in an empty working folder."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: object) -> Said:
        monkeypatch.setattr(sys, "argv", ["coevo", "skills", *map(str, arguments)])
        code: object = 0
        try:
            main.run()
        except SystemExit as e:
            code = e.code or 0
        said = capfd.readouterr()
        assert isinstance(code, int)
        return Said(code, said.out, said.err)

    return call


def lab(folder: Path, skill: str) -> Path:
    """A lab's run in which a skill helped in four contexts."""
    with Run.create(folder, kind="lab", config={}) as run:
        uses = [Use(skill, Outcome.HELPED, f"code/{i}", "lab", i, 0.1, 0.0) for i in range(4)]
        run.append(USED, {"uses": [use_row(use) for use in uses]})
    return folder


def test_list_of_a_folder_or_a_lab(coevo: Coevo, tmp_path: Path) -> None:
    """Only what lies there; of a lab what it wrote, and what it used, with counts."""
    ours = skill_folder(tmp_path / "mine", name="my-skill")
    listed = coevo("list", tmp_path / "mine")
    rows = [line.split("\t") for line in listed.out.splitlines() if "\t" in line]
    assert [row[0] for row in rows] == ["skill", ours.name] and "skills: 1" in listed.out and "states: 1 " in listed.out
    place = lab(tmp_path / "lab", "noise-floor")
    skill_folder(place / "harness" / "skills", name="lab-skill")
    found = json.loads(coevo("list", place, "--json").out)["skills"]
    assert {row["name"]: row["record"]["helped"] for row in found} == {"lab-skill": 0, "noise-floor": 4}
    wrong = coevo("list", tmp_path / "nowhere")
    assert wrong.code == 2 and "is no folder of skills" in wrong.err


def test_list_and_show(coevo: Coevo, tmp_path: Path) -> None:
    listed = coevo("list", "--json", "--lab", lab(tmp_path / "lab", "noise-floor"))
    states = {row["name"]: row["state"] for row in json.loads(listed.out)["skills"]}
    assert len(states) == len(shipped()) and states["noise-floor"] == "trusted" and states["copy-trap"] == "validated"
    skill_folder(tmp_path / "mine", {"SKILL.md": "nonsense"})
    plain = coevo("list", "--skills", "mine")
    assert plain.code == 0 and plain.out.splitlines()[-2:] == [f"skills: {len(states)}", "broken: 1"]
    assert "halve-rate is no skill: SKILL.md:1: must begin with" in plain.out
    shown = coevo("show", "copy-trap")
    assert "What it changes" in shown.out and "state: validated" in shown.out
    assert json.loads(coevo("show", "copy-trap", "--json").out)["sections"]["History"]
    unknown = coevo("show", "copy-trip")
    assert unknown.code == 2 and "Did you mean 'copy-trap'" in unknown.err


def test_test_ends_with_4_where_a_case_fails(coevo: Coevo, tmp_path: Path) -> None:
    assert coevo("test", "copy-trap", "noise-floor").code == 0
    always = "import json\nprint(json.dumps({'fires': True, 'why': 'always'}))\n"
    bad = skill_folder(tmp_path / "mine", {"scripts/trigger.py": always})
    failed = coevo("test", bad)
    assert failed.code == 4 and "nearly: expected 'near-miss', and it fires: always" in failed.out
    report = json.loads(coevo("test", "halve-rate", "--skills", "mine", "--json").out)
    assert [(row["skill"], row["hold"]) for row in report["skills"]] == [("halve-rate", False)]
    (bad / "SKILL.md").write_text("nonsense")
    assert coevo("test", bad).code == 2
    everything = coevo("test", "--skills", "mine")
    assert everything.code == 4 and "halve-rate: NO SKILL" in everything.out and "failed: 1" in everything.out


def test_import_then_export(coevo: Coevo, tmp_path: Path) -> None:
    source = skill_folder(tmp_path / "theirs")
    imported = coevo("import", source, "--to", "mine")
    assert imported.code == 0 and "cases: 2 of 2 hold" in imported.out
    refused = coevo("export", "--to", ".claude/skills", "--skills", "mine")
    assert refused.code == 2 and "skills are not trusted" in refused.err and "--least validated" in refused.err
    assert not Path(".claude").exists()
    trusted = coevo(
        "export", "--to", ".claude/skills", "--skills", "mine", "--lab", lab(tmp_path / "lab", "halve-rate")
    )
    assert trusted.code == 0 and "exported: 1" in trusted.out
    folder = Path(".claude/skills/halve-rate")
    assert problems(folder) == [] and "**trusted**" in (folder / "references/evidence.md").read_text()
    more = json.loads(coevo("export", "copy-trap", "--to", "out", "--least", "validated", "--json").out)
    assert more["exported"] == [str(tmp_path / "out/copy-trap")]
    assert coevo("export", "--to", "out", "--least", "demoted").code == 2
    assert coevo("import", tmp_path / "nowhere").code == 2
