"""The evaluator itself: it must find a skill that always fires, one that never does, and one whose change or word is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coevo.skills.cases import cases_of, completed, read_cases
from coevo.skills.reading import read_skill
from coevo.skills.running import Scripts
from tests.skills.making import CASES, case, findings, skill_folder


def says(answer: str) -> str:
    return f"import json, sys\njson.load(sys.stdin)\nprint(json.dumps({answer}))\n"


@pytest.mark.parametrize(
    ("trigger", "failing"),
    [
        (says("{'fires': True, 'why': 'always'}"), ["nearly"]),
        (says("{'fires': False, 'why': 'never'}"), ["all dead"]),
        ("raise SystemExit(1)", ["all dead", "nearly"]),
    ],
)
def test_a_skill_that_fires_too_much_or_too_little_is_found(
    tmp_path: Path, scripts: Scripts, trigger: str, failing: list[str]
) -> None:
    report = scripts.cases(read_skill(skill_folder(tmp_path, {"scripts/trigger.py": trigger})))
    assert not report.hold
    assert [result.case for result in report.failed] == failing


def test_a_sound_skill_holds(tmp_path: Path, scripts: Scripts) -> None:
    report = scripts.cases(read_skill(skill_folder(tmp_path)))
    assert report.hold and [result.case for result in report.results] == ["all dead", "nearly"]


def test_the_change_and_the_word_are_tested_too(tmp_path: Path, scripts: Scripts) -> None:
    dead, near = findings(dead_groups="critical"), case("nearly", "near-miss", findings())
    for more, said in (
        ({"recipe": {"lr": 1.0}, "sets": {"lr": 0.5}, "verdict": "helped", "after": findings()}, ""),
        ({"recipe": {"lr": 1.0}, "sets": {"lr": 0.1}}, 'apply: expected {"lr": 0.1}, not {"lr": 0.5}'),
        ({"recipe": {}}, "apply: crashed: scripts/apply.py"),
        ({"verdict": "hurt"}, "verify: expected 'hurt', not helped"),
    ):
        text = case("dead", "fires", dead, **more) + near
        skill = read_skill(skill_folder(tmp_path, {"assets/cases.jsonl": text}))
        found = next((result.detail for result in scripts.cases(skill).failed), "")
        assert found.startswith(said) and bool(found) == bool(said)


def test_a_case_is_given_as_a_whole_diagnosis(tmp_path: Path) -> None:
    first = cases_of(read_skill(skill_folder(tmp_path)))[0]
    assert first.diagnosis == completed(findings(dead_groups="critical"))
    assert set(first.diagnosis) == {"schema", "source", "rows", "findings", "rules", "unknown"}
    assert first.diagnosis["findings"]["dead-groups"] == {
        "id": "dead-groups",
        "layer": "",
        "level": "critical",
        "value": None,
        "note": "",
        "n": 0,
        "rows": [],
        "series": [],
    }


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("[]", "a case is an object"),
        ('{"name": "a", "expect": "fires", "diagnosis": {}, "x": 1}', "unknown key 'x'"),
        ('{"name": "", "expect": "fires", "diagnosis": {}}', "'name' must be"),
        ('{"name": "a", "expect": "fires"}', "'diagnosis' must hold 'findings'"),
        ('{"name": "a", "expect": "fires", "diagnosis": {"findings": {"a": 1}}}', "'diagnosis' must hold 'findings'"),
        ('{"name": "a", "expect": "fires", "diagnosis": {"findings": {}}, "truth": [1]}', "'truth' must be"),
        ('{"name": "a", "expect": "fires", "diagnosis": {"findings": {}}, "truth": [NaN, 1]}', "NaN is no JSON number"),
        ('{"name": "a", "expect": "fires", "diagnosis": {"findings": {}}, "verdict": "won"}', "'verdict' must be"),
        ('{"name": "a", "expect": "fires", "diagnosis": {"findings": {}}, "sets": {}}', "'recipe', which is not given"),
        ('{"name": "a", "expect": "fires", "diagnosis": {"findings": {}}, "recipe": 3}', "'recipe' must be an object"),
        ("[" * 5000, "is not JSON"),
    ],
)
def test_a_line_that_is_no_case_is_named(line: str, said: str) -> None:
    _, wrong = read_cases(CASES + line + "\n")
    assert len(wrong) == 1 and wrong[0].startswith("assets/cases.jsonl:3: ") and said in wrong[0]


@given(st.text(max_size=200))
def test_any_text_is_cases_or_problems(text: str) -> None:
    cases, wrong = read_cases(text)
    assert wrong or cases
