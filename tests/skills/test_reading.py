"""What is a skill, what is not, and that every refusal names file and line."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coevo.errors import UsageError
from coevo.skills.contents import MAX_FILE, digest_of, inside
from coevo.skills.reading import HEADINGS, problems, read_page, read_skill
from tests.skills.making import CASES, case, findings, page, skill_folder


def test_a_sound_folder_is_read(tmp_path: Path) -> None:
    fields = 'license: Apache-2.0\nmetadata:\n  version: "3"\n  scope: "code, math"\n'
    folder = skill_folder(
        tmp_path, {"SKILL.md": page("halve-rate", fields=fields), "references/evidence.md": "# seen\n"}
    )
    assert problems(folder) == []
    skill = read_skill(folder)
    assert (skill.name, skill.scope) == ("halve-rate", ("code", "math"))
    assert list(skill.sections) == list(HEADINGS)
    assert set(skill.files) == {
        *("SKILL.md", "scripts/trigger.py", "scripts/apply.py", "scripts/verify.py"),
        *("assets/cases.jsonl", "references/evidence.md"),
    }


def test_the_digest_covers_what_runs_and_not_the_evidence_page(tmp_path: Path) -> None:
    folder = skill_folder(tmp_path)
    before = read_skill(folder).digest
    (folder / "references").mkdir()
    (folder / "references/evidence.md").write_text("helped once\n")
    assert read_skill(folder).digest == before
    (folder / "scripts/trigger.py").write_text("print(1)\n")
    assert read_skill(folder).digest != before


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        ({"SKILL.md": None}, "SKILL.md is missing"),
        ({"SKILL.md": "# no frontmatter\n"}, "SKILL.md:1: must begin with '---'"),
        ({"SKILL.md": "---\nname: x\n"}, "SKILL.md:1: the frontmatter has no closing"),
        ({"SKILL.md": "---\nname: [x\n---\n"}, "is not valid YAML"),
        ({"SKILL.md": page("other")}, "SKILL.md:2: name is 'other', and the folder 'halve-rate'"),
        ({"SKILL.md": page("halve-rate", fields="state: trusted\n")}, "SKILL.md:4: unknown field 'state'"),
        ({"SKILL.md": page("halve-rate", fields="metadata: {version: 3}\n")}, "SKILL.md:4: metadata must map texts"),
        ({"SKILL.md": page("halve-rate", description="x" * 1025)}, "SKILL.md:3: description has 1,025 characters"),
        ({"SKILL.md": page("halve-rate", description="a <tag> b")}, "SKILL.md:3: description may not hold"),
        ({"SKILL.md": page("halve-rate").replace("## History", "## Story")}, "unknown heading 'Story'"),
        (
            {"SKILL.md": page("halve-rate").replace("## History\n\nSome text.", "## History")},
            "says nothing under 'History'",
        ),
        ({"SKILL.md": page("halve-rate") + "\n" * 300}, "SKILL.md:201: has"),
        ({"SKILL.md": b"---\nname: \xff\n---\n"}, "SKILL.md: line 2: is not UTF-8 text"),
        ({"scripts/trigger.py": None}, "scripts/trigger.py is missing"),
        ({"scripts/trigger.py": "import os\n\nimport numpy\n"}, "scripts/trigger.py:3: imports 'numpy'"),
        ({"scripts/trigger.py": "from coevo import errors\n"}, "scripts/trigger.py:1: imports 'coevo'"),
        ({"scripts/apply.py": "x = (\n"}, "scripts/apply.py:1: is not Python"),
        ({"scripts/apply.py": "x = 1\n" * 20_000}, "scripts/apply.py: is over 65,536 bytes"),
        ({"scripts/apply.py": None}, "neither is there"),
        ({"assets/patch.yaml": "sets: {lr: 1}\n"}, "both are there"),
        ({"scripts/apply.py": None, "assets/patch.yaml": "sets: {}\n"}, "assets/patch.yaml:1: it changes nothing"),
        ({"scripts/apply.py": None, "assets/patch.yaml": "sets: {a b: 1}\n"}, "'a b' is no dotted name"),
        ({"assets/cases.jsonl": CASES + "{nonsense\n"}, "assets/cases.jsonl:3: is not JSON"),
        ({"assets/cases.jsonl": CASES + case("nearly", "silent", findings())}, "assets/cases.jsonl:3: a second case"),
        ({"assets/cases.jsonl": case("one", "fires", findings())}, "no case that nearly makes it fire"),
        ({"assets/cases.jsonl": CASES.replace("near-miss", "maybe")}, "assets/cases.jsonl:2: 'expect' must be one of"),
        ({"assets/big.json": b" " * (MAX_FILE + 1)}, "assets/big.json: is over 262,144 bytes"),
        ({"assets/tool.bin": b"\x7fELF\0"}, "assets/tool.bin: files of kind '.bin'"),
        ({"assets/tool": b"\x7fELF\0"}, "assets/tool: is binary"),
        ({"assets/tool": "#!/bin/sh\nrm -rf /\n"}, "assets/tool: is a program without a suffix"),
        ({"a/b/c/d/e.md": "deep\n"}, "a/b/c/d: lies deeper than 4 folders"),
        ({"assets/odd name.md": "text\n"}, "characters other than letters"),
    ],
)
def test_what_is_refused_is_named(tmp_path: Path, texts: dict[str, str | bytes | None], said: str) -> None:
    folder = skill_folder(tmp_path, texts)
    found = problems(folder)
    assert any(said in problem for problem in found), found
    with pytest.raises(UsageError, match="is no skill"):
        read_skill(folder)


def test_links_pipes_and_crowds_are_refused(tmp_path: Path) -> None:
    folder = skill_folder(tmp_path)
    (folder / "assets/outside.md").symlink_to("/etc/passwd")
    (folder / "outside").symlink_to("/etc")
    os.mkfifo(folder / "assets/pipe.md")
    assert problems(folder) == [
        "assets/outside.md: is a symbolic link; copy what it points to",
        "assets/pipe.md: is not a plain file",
        "outside: is a symbolic link; copy what it points to",
    ]
    for i in range(70):
        (folder / f"assets/{i}.md").write_text("x")
    assert problems(folder)[-1] == "more than 64 files; keep what the skill needs"
    (tmp_path / "link").symlink_to(folder)
    for place in (tmp_path / "link", tmp_path / "nothing"):
        assert problems(place) == [f"{place} is no folder"]


def test_hidden_files_and_caches_are_no_part_of_it(tmp_path: Path) -> None:
    folder = skill_folder(tmp_path, {".git/config": "x", "scripts/__pycache__/trigger.pyc": b"\0\1"})
    assert problems(folder) == []
    assert not [name for name in read_skill(folder).files if "git" in name or "cache" in name]


@given(st.text(max_size=400), st.booleans())
def test_any_page_is_read_or_refused_and_never_an_exception(text: str, framed: bool) -> None:
    _, sections, wrong = read_page(f"---\n{text}\n---\n{text}" if framed else text, name="a")
    assert wrong or list(sections) == list(HEADINGS)


@given(st.text(max_size=30))
def test_a_path_inside_stays_inside(name: str) -> None:
    if inside(name):
        assert ".." not in name.split("/") and not name.startswith("/")
        assert Path("/base", name).resolve().is_relative_to("/base")


@given(st.dictionaries(st.text(max_size=5), st.text(max_size=5), min_size=1, max_size=3))
def test_digests_tell_files_apart(files: dict[str, str]) -> None:
    name = next(iter(files))
    assert digest_of(files) == digest_of(dict(reversed(files.items())))
    assert digest_of(files) != digest_of({**files, name: files[name] + "x"})
    assert digest_of(files) != digest_of({**files, name + "2" * 6: ""})
