"""Shelves, imports, exports, tombstones, and the page of evidence."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from coevo.errors import ConfigError, StoreError, UsageError
from coevo.runs import Run
from coevo.skills.evidence import USED, evidence_page, use_from, use_row, uses_of
from coevo.skills.reading import problems, read_skill
from coevo.skills.states import state_of
from coevo.skills.store import (
    bury,
    copy_skill,
    export_skills,
    import_skill,
    open_shelf,
    read_tombstones,
    shipped,
    write_folder,
)
from coevo.skills.types import Origin, Outcome, Use
from tests.skills.making import page, skill_folder

USES = [
    Use("halve-rate", Outcome.FIRED, "code/mini", "lab | one", 1),
    Use("halve-rate", Outcome.HELPED, "code/mini", "lab | one", 1, 0.0625, 0.01),
    Use("other", Outcome.HURT, "code/mini", "lab | one", 2, -0.5, 0.0),
]


def test_a_later_shelf_hides_an_earlier_one_and_a_broken_skill_hides_nothing(tmp_path: Path) -> None:
    skill_folder(tmp_path / "one", {"SKILL.md": page("copy-trap")}, name="copy-trap")
    skill_folder(tmp_path / "one", {"SKILL.md": "nonsense"}, name="wrong")
    (tmp_path / "one" / "_notes").mkdir()
    alone = skill_folder(tmp_path / "two")
    shelf = open_shelf([tmp_path / "one", alone])
    assert len(shelf.skills) == len(shipped()) + 1
    assert shelf.get("copy-trap").folder == tmp_path / "one" / "copy-trap"
    assert [Path(folder).name for folder in shelf.broken] == ["wrong"]
    assert shelf.origin_of(shelf.get("copy-trap")) is Origin.IMPORTED
    assert shelf.origin_of(shelf.get("noise-floor")) is Origin.SHIPPED
    with pytest.raises(ConfigError, match="Did you mean 'halve-rate'"):
        shelf.get("halve-rat")
    with pytest.raises(UsageError, match="is no folder of skills"):
        open_shelf([tmp_path / "nowhere"])


def test_what_is_imported_is_what_was_checked_and_its_claims_count_for_nothing(tmp_path: Path) -> None:
    fields = "metadata: {origin: shipped, state: trusted}\n"
    texts = {"SKILL.md": page("halve-rate", fields=fields), "references/evidence.md": "helped 100 times\n"}
    source = skill_folder(tmp_path / "theirs", {**texts, ".hidden": "x"})
    os.chmod(source / "scripts/trigger.py", 0o4755)
    skill = import_skill(source, tmp_path / "mine")
    assert skill.folder == tmp_path / "mine/halve-rate"
    assert skill.digest == read_skill(source).digest
    assert not (skill.folder / ".hidden").exists() and not (skill.folder / "references").exists()
    assert os.stat(skill.folder / "scripts/trigger.py").st_mode & 0o7111 == 0
    shelf = open_shelf([tmp_path / "mine"])
    assert shelf.origin_of(skill) is Origin.IMPORTED
    assert import_skill(source, tmp_path / "mine") == skill
    (source / "scripts/trigger.py").write_text("print(1)\n")
    with pytest.raises(UsageError, match="is there already, and differs"):
        import_skill(source, tmp_path / "mine")
    assert read_skill(skill.folder).digest == skill.digest


def test_nothing_half_written_is_left(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreError, match="cannot write the skill"):
        write_folder(tmp_path / "file" / "a", {"SKILL.md": "x"})
    (tmp_path / "full" / "a").mkdir(parents=True)
    (tmp_path / "full" / "a" / "kept").write_text("x")
    with pytest.raises(StoreError):
        write_folder(tmp_path / "full" / "a", {"SKILL.md": "x"})
    assert [p.name for p in (tmp_path / "full").iterdir()] == ["a"]


def test_an_export_is_a_plain_copy_that_validates_and_may_be_repeated(tmp_path: Path) -> None:
    skill = read_skill(skill_folder(tmp_path))
    page_ = evidence_page(skill, USES, state_of(USES[:2], cases_hold=True))
    for _ in range(2):
        (folder,) = export_skills([(skill, page_)], tmp_path / ".claude/skills")
        assert problems(folder) == [] and read_skill(folder).digest == skill.digest
        assert (folder / "references/evidence.md").read_text() == page_
        assert [p.name for p in folder.parent.iterdir()] == ["halve-rate"]
    (tmp_path / "taken/halve-rate").mkdir(parents=True)
    with pytest.raises(UsageError, match="is no skill; export to another folder"):
        export_skills([(skill, page_)], tmp_path / "taken")


def test_the_page_of_evidence_says_what_was_settled(tmp_path: Path) -> None:
    skill = read_skill(skill_folder(tmp_path))
    text = evidence_page(skill, USES, state_of(USES[:2], cases_hold=True))
    assert "State: **validated**" in text and "| 1 | 0 | 1 | 0 | 0 | 0 | 0.67 |" in text
    assert "| lab / one | 1 | code/mini | helped | +0.0625 | +0.01 |" in text
    assert "hurt | -0.5" not in text
    assert "No use of it has been settled yet." in evidence_page(skill, [], state_of([], cases_hold=False))


def test_a_grave_holds_one_version_for_good(tmp_path: Path) -> None:
    skill = read_skill(skill_folder(tmp_path))
    for _ in range(2):
        bury(tmp_path, skill, "writes\nnonsense")
    assert read_tombstones(tmp_path) == {skill.digest: "writes nonsense"}
    assert open_shelf([tmp_path]).tombstones == {skill.digest: "writes nonsense"}
    with pytest.raises(UsageError, match="needs a reason"):
        bury(tmp_path, skill, " ")
    (tmp_path / "tombstones.jsonl").write_text("{}\n")
    with pytest.raises(UsageError, match=r"tombstones\.jsonl:1: is no tombstone"):
        open_shelf([tmp_path])


def test_uses_come_from_a_labs_events(tmp_path: Path) -> None:
    with Run.create(tmp_path / "lab", kind="lab", config={}) as run:
        run.append(USED, {"uses": [use_row(use) for use in USES[:2]]})
        run.append("other", {"uses": 3})
        run.append(USED, {"uses": [use_row(USES[2])]})
        assert uses_of([run]) == USES
    assert uses_of([tmp_path / "lab", tmp_path / "lab"]) == USES * 2
    assert use_from(use_row(USES[1])) == USES[1]
    with Run.create(tmp_path / "odd", kind="lab", config={}) as run:
        run.append(USED, {"uses": [{"skill": "x"}]})
    with pytest.raises(UsageError, match="hold no uses of skills"):
        uses_of([tmp_path / "odd"])


def test_a_copy_takes_no_place_of_another(tmp_path: Path) -> None:
    own = shipped()[0]
    first = copy_skill(own, tmp_path)
    assert copy_skill(own, tmp_path, evidence="# seen\n") == first
    assert (first.folder / "references/evidence.md").read_text() == "# seen\n"
