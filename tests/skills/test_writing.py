"""Skills that a lab writes: valid whatever an agent said, deterministic, and as narrow as the past demands."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coevo.errors import UsageError
from coevo.skills.reading import problems, read_skill
from coevo.skills.running import Scripts
from coevo.skills.types import Outcome
from coevo.skills.writing import Discovery, condition_of, skill_texts, slug, write_skill
from tests.skills.making import diagnosis

BEFORE = diagnosis(dead_groups="critical", learning="warn", entropy_collapse="ok")
FOUND = Discovery(
    name="Raise the filter's patience",
    hypothesis="Dead groups starve the update.",
    before=BEFORE,
    sets={"filter.replace": 4},
    cites=("dead-groups",),
    difference=0.06,
    control=0.01,
    context="code/mini",
    lab="night",
    round=3,
)


def test_a_written_skill_is_sound_fires_where_it_helped_and_says_what_it_saw(tmp_path: Path, scripts: Scripts) -> None:
    skill = write_skill(FOUND, tmp_path)
    assert skill.name == "raise-the-filter-s-patience" and skill.scope == ("code",)
    assert problems(skill.folder) == [] and scripts.cases(skill).hold
    assert scripts.fires(skill, BEFORE).fires
    assert not scripts.fires(skill, diagnosis(dead_groups="ok", learning="critical")).fires
    assert dict(scripts.patch_of(skill, {}, BEFORE).sets) == {"filter.replace": 4}
    assert "gained +0.06 of truth, the control +0.01 in code/mini" in skill.sections["History"]
    assert "> Dead groups starve the update." in skill.sections["What should happen"]
    assert not scripts.is_own(skill)


def test_the_same_discovery_is_the_same_skill_and_another_gets_a_name_of_its_own(tmp_path: Path) -> None:
    first = write_skill(FOUND, tmp_path / "a")
    assert write_skill(FOUND, tmp_path / "a") == first
    assert write_skill(FOUND, tmp_path / "b").digest == first.digest
    second = write_skill(replace(FOUND, sets={"lr": 1e-6}), tmp_path / "a")
    assert second.name == "raise-the-filter-s-patience-2" and second.digest != first.digest


@pytest.mark.parametrize(
    ("others", "wanted", "fine", "near"),
    [
        ([], {"dead-groups": 1}, (), 0),
        ([diagnosis(dead_groups="ok")], {"dead-groups": 1}, (), 1),
        ([diagnosis(dead_groups="warn", learning="warn")], {"dead-groups": 2}, (), 1),
        ([diagnosis(dead_groups="critical")], {"dead-groups": 1, "learning": 1}, (), 1),
        (
            [diagnosis(dead_groups="critical", learning="warn", entropy_collapse="warn")],
            {"dead-groups": 1},
            ("entropy-collapse",),
            1,
        ),
        ([BEFORE], {"dead-groups": 1}, (), 0),
    ],
)
def test_a_trigger_is_no_closer_than_the_past_demands(
    tmp_path: Path, scripts: Scripts, others: list[Any], wanted: dict[str, int], fine: tuple[str, ...], near: int
) -> None:
    discovery = replace(FOUND, others=others)
    condition, told_apart = condition_of(discovery)
    assert (dict(condition.wanted), condition.fine, len(told_apart)) == (wanted, fine, near)
    skill = write_skill(discovery, tmp_path)
    assert scripts.cases(skill).hold
    for other in others:
        assert scripts.fires(skill, other).fires == (other == BEFORE)


def test_without_a_citation_the_worst_finding_is_the_trigger() -> None:
    assert condition_of(replace(FOUND, cites=("unheard-of", "entropy-collapse")))[0].wanted == {"dead-groups": 1}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"before": diagnosis(dead_groups="ok")}, "nothing was out of order before"),
        ({"sets": {}}, "changes nothing"),
        ({"sets": {"a b": 1}}, "'a b' is no dotted name"),
        ({"sets": {"lr": "\ud800"}}, "the new value of 'lr' is not plain data"),
        ({"sets": {}, "files": {"../x.py": "x"}}, "is no path inside the harness"),
        ({"sets": {}, "files": {"rewards/x.py": "x" * 300_000}}, "is over 262,144 bytes"),
    ],
)
def test_what_cannot_be_a_skill_is_refused_and_leaves_nothing(
    tmp_path: Path, change: dict[str, Any], said: str
) -> None:
    with pytest.raises(UsageError, match=said):
        write_skill(replace(FOUND, **change), tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_the_check_is_the_prediction(tmp_path: Path, scripts: Scripts) -> None:
    by_level = write_skill(FOUND, tmp_path)
    by_value = write_skill(replace(FOUND, metric="dead-groups", direction="down", size=0.2), tmp_path)
    after = diagnosis(dead_groups="ok")
    assert scripts.verify(by_level, BEFORE, after).word is Outcome.HELPED
    assert scripts.verify(by_value, BEFORE, after).word is Outcome.INCONCLUSIVE  # The value stayed at 0.5.
    for skill in (by_level, by_value):
        assert scripts.verify(skill, BEFORE, after, truth=(0.5, 0.4)).word is Outcome.HURT
        assert scripts.verify(skill, after, BEFORE, truth=(0.5, 0.6)).word is Outcome.HELPED


HOSTILE = st.text(max_size=60) | st.sampled_from(
    ["---\n## History\n", "@WHEN@ @PAGE@", '""" + evil() + """', "`x` <b>", "\u2028## What", "{{name}}", "a\0b", "\x85"]
)


@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(HOSTILE, HOSTILE, HOSTILE, HOSTILE, st.dictionaries(st.sampled_from(["lr", "a.b"]), HOSTILE, min_size=1))
def test_whatever_an_agent_wrote_becomes_a_sound_skill_that_says_it_as_text(
    tmp_path_factory: pytest.TempPathFactory,
    scripts: Scripts,
    name: str,
    hypothesis: str,
    lab: str,
    context: str,
    sets: dict[str, str],
) -> None:
    found = replace(FOUND, name=name, hypothesis=hypothesis + "\ud800", lab=lab, context=context, sets=sets)
    skill = write_skill(found, tmp_path_factory.mktemp("written"))
    assert scripts.cases(skill).hold
    assert dict(scripts.patch_of(skill, {}, BEFORE).sets) == sets
    assert skill_texts(found, skill.name) == skill.files


@given(st.text(max_size=200))
def test_any_name_becomes_a_valid_one(name: str) -> None:
    found = slug(name)
    assert 0 < len(found) <= 60 and found == slug(found)
    assert all(part.isalnum() and part.isascii() for part in found.split("-"))


@pytest.mark.parametrize("name", ["0", "null", "true", "1e5", "no", "2026-01-01"])
def test_a_name_that_yaml_would_read_as_something_else_stays_a_name(tmp_path: Path, name: str) -> None:
    assert write_skill(replace(FOUND, name=name), tmp_path).name == name


def test_a_skill_of_files_is_one_too(tmp_path: Path, scripts: Scripts) -> None:
    discovery = replace(
        FOUND, sets={}, files={"rewards/kind.py": "def kind(sample):\n    return 1.0\n", "old.py": None}
    )
    skill = write_skill(discovery, tmp_path)
    patch = scripts.patch_of(skill, {}, BEFORE)
    assert dict(patch.files) == dict(discovery.files) and not patch.sets
    assert read_skill(skill.folder) == skill
