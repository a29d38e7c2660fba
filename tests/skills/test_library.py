"""The shipped skills: sound, their cases hold, their changes are real settings that a lab allows, and they find the toy's planted faults."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coevo.config import parse
from coevo.diagnostics.diagnose import diagnose
from coevo.diagnostics.registry import shipped as diagnostics
from coevo.diagnostics.types import Diagnosis
from coevo.evidence.rows import frame_of
from coevo.lab.interventions import ALLOWED
from coevo.runs import Run
from coevo.skills.cases import cases_of
from coevo.skills.patches import applied
from coevo.skills.reading import problems
from coevo.skills.retrieval import retrieve
from coevo.skills.running import Scripts
from coevo.skills.store import LIBRARY, shipped
from coevo.skills.types import Outcome, Skill
from coevo.training.settings import Recipe
from coevo.training.toy import train_toy

SKILLS = {skill.name: skill for skill in shipped()}
NAMES = sorted(SKILLS)


FAULTS = {"leak-by-history", "saturated-bonus", "learning-rate-brake", "copy-trap"}
"""Skills for what can be planted in the toy's world, each for one fault alone. (Ties come with other faults, too.)"""


def recipe_of(change: Mapping[str, Any]) -> dict[str, Any]:
    """A whole recipe from what a case says of it."""
    states = {"trajectories": ["somewhere"], **change.get("states", {})}
    return parse(Recipe, {**change, "states": states, "allow_cheats": True}, where="case").model_dump(mode="json")


def test_the_library_is_whole() -> None:
    assert len(SKILLS) >= 10
    assert sorted(p.name for p in LIBRARY.iterdir() if p.is_dir()) == NAMES
    assert all(problems(LIBRARY / name) == [] for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_cases_hold(name: str, scripts: Scripts) -> None:
    report = scripts.cases(SKILLS[name])
    assert report.hold, report.failed
    expected = [case.expect for case in cases_of(SKILLS[name])]
    assert expected.count("fires") >= 2 and expected.count("near-miss") >= 2 and "silent" in expected


@pytest.mark.parametrize("name", NAMES)
def test_changes_are_one_real_setting_that_a_lab_allows(name: str, scripts: Scripts) -> None:
    skill, changed = SKILLS[name], 0
    for case in cases_of(skill):
        if case.recipe is None:
            continue
        before = recipe_of(case.recipe)
        patch = scripts.patch_of(skill, before, case.diagnosis)
        assert patch.failure is None and patch.why
        if patch.empty:
            continue
        changed += 1
        (setting,) = patch.sets
        assert any(fnmatchcase(setting, pattern) for pattern in ALLOWED), setting
        after = parse(Recipe, applied(before, patch), where=name).model_dump(mode="json")
        assert after != before
        assert dict(scripts.patch_of(skill, after, case.diagnosis).sets) != dict(patch.sets)
    assert changed


@pytest.mark.parametrize("name", NAMES)
def test_what_it_asks_for_is_a_diagnostic(name: str) -> None:
    known = set(diagnostics())
    skill = SKILLS[name]
    cited = {finding for case in cases_of(skill) for finding in case.diagnosis["findings"]}
    words = {
        node.value
        for script in ("scripts/trigger.py", "scripts/verify.py")
        for node in ast.walk(ast.parse(skill.files[script]))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }
    cited |= {word for word in words if "-" in word and word.replace("-", "").isalpha() and word.islower()}
    assert cited - known == set()


LEVELS = st.dictionaries(
    st.sampled_from(sorted({f for s in SKILLS.values() for c in cases_of(s) for f in c.diagnosis["findings"]})),
    st.fixed_dictionaries(
        {"level": st.sampled_from(["ok", "warn", "critical", "unknown"]), "value": st.none() | st.floats(-10, 10)},
        optional={"series": st.lists(st.tuples(st.integers(0, 99), st.floats(0, 9)), max_size=5), "note": st.text()},
    ),
)


@settings(max_examples=4, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(LEVELS, LEVELS)
def test_every_script_answers_whatever_it_is_told(
    scripts: Scripts, before: dict[str, Any], after: dict[str, Any]
) -> None:
    one, two = {"findings": before}, {"findings": after}
    for skill in SKILLS.values():
        assert scripts.fires(skill, one).failure is None
        assert scripts.patch_of(skill, {}, one).failure is None
        assert scripts.verify(skill, one, two, truth=(0.1, None)).failure is None


def test_a_script_needs_no_coevo(tmp_path: Path) -> None:
    script = LIBRARY / "copy-trap" / "scripts" / "trigger.py"
    given_ = json.dumps({"findings": {"copies-of-parent": {"level": "critical"}}})
    done = subprocess.run(
        [sys.executable, "-I", "-S", script], input=given_, capture_output=True, text=True, cwd=tmp_path, env={}
    )
    assert (done.returncode, json.loads(done.stdout)["fires"]) == (0, True)


def trained(place: Path, change: Mapping[str, Any]) -> tuple[dict[str, Any], Diagnosis, float]:
    """A short toy run: its recipe, its diagnosis, its true ability."""
    recipe = parse(Recipe, {"trainer": "toy", "steps": 50, "groups": 4, **change}, where="fault")
    with Run.create(place, kind="train", config=recipe.model_dump(mode="json")) as run:
        ability = train_toy(recipe, run).metrics["ability_last"]
        return recipe.model_dump(mode="json"), diagnose(frame_of(run.rollouts())), ability


@pytest.mark.parametrize(
    ("fault", "skill", "sets"),
    [
        ({"toy": {"leak": 0.8}}, "leak-by-history", {"toy.leak": 0.0}),
        ({"toy": {"bonus": 0.5}}, "saturated-bonus", {"toy.bonus": 0.0}),
        ({"toy": {"levels": 1}}, "middle-level-tie-generator", {"toy.levels": None}),
        ({"lr": 1e-3}, "learning-rate-brake", {"lr": 1e-4}),
        ({"reward": {"parts": {"metaevolve": 1.0}}}, "copy-trap", {"reward.parts": {"search_gain": 1.0}}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_planted_fault_is_found_and_taken_out(
    tmp_path: Path, scripts: Scripts, fault: dict[str, Any], skill: str, sets: dict[str, Any]
) -> None:
    recipe, found, ability = trained(tmp_path / "faulty", fault)
    fired = retrieve(found, SKILLS.values(), [], "code/toy", scripts=scripts)
    changing = {one.skill.name for one in fired if not scripts.patch_of(one.skill, recipe, found).empty}
    assert skill in changing and changing & FAULTS <= {skill}
    patch = scripts.patch_of(SKILLS[skill], recipe, found)
    assert dict(patch.sets) == sets
    if skill == "saturated-bonus":
        mended = applied(recipe, patch)
        _, after, better = trained(tmp_path / "mended", {key: mended[key] for key in ("toy", "lr", "reward")})
        assert better > ability + 0.1
        assert scripts.verify(SKILLS[skill], found, after, truth=(ability, better)).word is Outcome.HELPED
        assert scripts.verify(SKILLS[skill], after, found).word is Outcome.HURT


def test_a_sound_run_asks_for_no_skill(tmp_path: Path, scripts: Scripts) -> None:
    _, found, _ = trained(tmp_path / "sound", {})
    assert not [name for name in FAULTS if scripts.fires(SKILLS[name], found).fires]


def test_skills_are_values(scripts: Scripts) -> None:
    assert isinstance(SKILLS["copy-trap"], Skill) and shipped()[0] == SKILLS[NAMES[0]]
    assert all(scripts.is_own(skill) for skill in shipped())
