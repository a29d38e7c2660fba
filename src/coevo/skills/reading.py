"""From a folder to a `Skill`: the Agent Skills format, with what coevo asks beyond it.

    NAME/
      SKILL.md               frontmatter of the specification only; a body with fixed headings
      scripts/trigger.py     a diagnosis on stdin -> {"fires": bool, "why": str}
      scripts/apply.py       {"recipe", "diagnosis"} on stdin -> {"sets": {dotted name: value}, "why": str}
      scripts/verify.py      {"before", "after", "truth"} on stdin -> {"verdict": helped|hurt|inconclusive, "reason": str}
      assets/patch.yaml      instead of apply.py, where the change is data only
      assets/cases.jsonl     diagnoses on which it must fire, and near misses on which it must not
      references/evidence.md written from a lab's events; no part of the skill's digest

Every problem names its file and line. Scripts are checked here (syntax, standard library only) and never run.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from coevo.config import plain_yaml
from coevo.errors import ConfigError, UsageError
from coevo.skills.contents import Contents, digest_of, read_contents
from coevo.skills.types import Skill

HEADINGS = (
    "When it applies",
    "What it changes",
    "What should happen",
    "How to check",
    "When not to use it",
    "History",
)
"""Of the body, in this order; each holds some text."""
MAX_DESCRIPTION = 1024
MAX_COMPATIBILITY = 500
MAX_LINES = 200
"""Of SKILL.md: it is read into an agent's context."""
NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
FIELDS = ("name", "description", "license", "compatibility", "metadata", "allowed-tools")
"""All that the specification knows."""
SCRIPTS = ("scripts/trigger.py", "scripts/verify.py")
APPLY = "scripts/apply.py"
PATCH = "assets/patch.yaml"
CASES = "assets/cases.jsonl"


def problems(folder: str | Path) -> list[str]:
    """Everything that keeps a folder from being a skill; empty for a sound one. Never raises for what lies in the folder."""
    return _read(Path(folder))[1]


def read_skill(folder: str | Path) -> Skill:
    """The skill in a folder. Raises `UsageError` with every problem, each with its file and line."""
    skill, found = _read(Path(folder))
    if skill is None:
        raise UsageError(f"{folder} is no skill: " + "; ".join(found))
    return skill


def _read(folder: Path) -> tuple[Skill | None, list[str]]:
    folder = folder.absolute()
    contents = read_contents(folder)
    found = list(contents.problems)
    if (found and not contents.files) or not contents.complete:
        return None, found
    head: Mapping[str, Any] = {}
    sections: dict[str, str] = {}
    text = contents.files.get("SKILL.md")
    if text is None:
        if not any(p.startswith("SKILL.md") for p in found):
            found.append("SKILL.md is missing")
    else:
        head, sections, wrong = read_page(text, name=folder.name)
        found += wrong
    found += _files(contents)
    if found:
        return None, found
    skill = Skill(
        name=head["name"],
        description=" ".join(head["description"].split()),
        folder=folder,
        digest=digest_of(contents.files),
        metadata=dict(head.get("metadata") or {}),
        sections=sections,
        files=contents.files,
    )
    return skill, []


def read_page(text: str, *, name: str) -> tuple[dict[str, Any], dict[str, str], list[str]]:
    """SKILL.md of the folder `name`: frontmatter, body by heading, and what is wrong with them."""
    lines = text.split("\n")
    if lines[0].rstrip() != "---":
        return {}, {}, ["SKILL.md:1: must begin with '---', the frontmatter's first line"]
    end = next((i for i, line in enumerate(lines) if i and line.rstrip() == "---"), None)
    if end is None:
        return {}, {}, ["SKILL.md:1: the frontmatter has no closing '---'"]
    found: list[str] = []
    try:
        head = plain_yaml("\n".join(lines[1:end]), where="SKILL.md: the frontmatter")
    except ConfigError as e:
        return {}, {}, [str(e)]
    if not isinstance(head, dict):
        return {}, {}, ["SKILL.md:2: the frontmatter must be a mapping with name and description"]
    for key, why in _wrong_fields(head, name):
        found.append(f"SKILL.md:{_line_of(lines[:end], key)}: {why}")
    if len(lines) > MAX_LINES:
        found.append(
            f"SKILL.md:{MAX_LINES + 1}: has {len(lines)} lines; {MAX_LINES} are the limit. Move detail to references/"
        )
    sections, wrong = _sections(lines, end + 1)
    return head, sections, found + wrong


def _line_of(lines: list[str], key: str) -> int:
    return next((i + 1 for i, line in enumerate(lines) if line.startswith(f"{key}:")), 1)


def _wrong_fields(head: Mapping[Any, Any], name: str) -> Iterator[tuple[str, str]]:
    """(field, what is wrong with it)."""
    for key in head:
        if key not in FIELDS:
            yield str(key), f"unknown field {str(key)[:80]!r}; the specification has {', '.join(FIELDS)}"
    found = head.get("name")
    if not isinstance(found, str) or not NAME.fullmatch(found) or len(found) > 64:
        yield (
            "name",
            f"name must be lower-case words joined by single '-', at most 64 characters, not {str(found)[:80]!r}",
        )
    elif found != name:
        yield "name", f"name is {found!r}, and the folder {name[:80]!r}; both must be the same"
    text = head.get("description")
    if not isinstance(text, str) or not text.strip():
        yield "description", "description must say what the skill does, and when to use it"
    elif len(text) > MAX_DESCRIPTION:
        yield "description", f"description has {len(text):,} characters; {MAX_DESCRIPTION:,} are the limit"
    elif "<" in text or ">" in text:
        yield "description", "description may not hold '<' or '>': it is pasted into prompts"
    for key, most in (("license", 200), ("compatibility", MAX_COMPATIBILITY), ("allowed-tools", 500)):
        if key in head and (not isinstance(head[key], str) or not 0 < len(head[key]) <= most):
            yield key, f"{key} must be a text of 1 to {most} characters"
    metadata = head.get("metadata", {})
    if not isinstance(metadata, dict) or not all(
        isinstance(k, str) and isinstance(v, str) for k, v in metadata.items()
    ):
        yield "metadata", 'metadata must map texts to texts; quote its values (version: "1")'
    elif sum(len(k) + len(v) for k, v in metadata.items()) > 4000:
        yield "metadata", "metadata is over 4,000 characters"


def _sections(lines: list[str], start: int) -> tuple[dict[str, str], list[str]]:
    """Body by heading of the second level; other levels and fenced code are text."""
    found: dict[str, list[str]] = {}
    at: dict[str, int] = {}
    wrong: list[str] = []
    current: list[str] | None = None
    fenced = False
    for number, line in enumerate(lines[start:], start + 1):
        fenced ^= line.lstrip().startswith("```")
        if line.startswith("## ") and not fenced:
            title = line[3:].strip()
            if title not in HEADINGS:
                wrong.append(f"SKILL.md:{number}: unknown heading {title[:80]!r}; known: {', '.join(HEADINGS)}")
            elif title in found:
                wrong.append(f"SKILL.md:{number}: heading {title!r} stands twice")
            current = found.setdefault(title, [])
            at.setdefault(title, number)
        elif current is not None:
            current.append(line)
    sections = {title: "\n".join(text).strip() for title, text in found.items()}
    wrong += [f"SKILL.md:{len(lines)}: heading '## {title}' is missing" for title in HEADINGS if title not in sections]
    wrong += [f"SKILL.md:{at[t]}: says nothing under {t!r}" for t in HEADINGS if t in sections and not sections[t]]
    if not wrong and list(sections) != list(HEADINGS):
        wrong.append(
            f"SKILL.md:{at[next(iter(sections))]}: the headings must come in this order: {', '.join(HEADINGS)}"
        )
    return sections, wrong


def _files(contents: Contents) -> list[str]:
    """What is wrong with the files beside SKILL.md."""
    from coevo.skills.cases import read_cases
    from coevo.skills.patches import read_patch

    files, known_bad = contents.files, " ".join(contents.problems)
    found = [f"{name} is missing" for name in (*SCRIPTS, CASES) if name not in files and name not in known_bad]
    if (APPLY in files) == (PATCH in files) and APPLY not in known_bad and PATCH not in known_bad:
        both = "both are there" if APPLY in files else "neither is there"
        found.append(f"a skill has {APPLY}, or {PATCH} where the change is data only: {both}")
    for name, text in files.items():
        if name.endswith(".py"):
            found += [f"{name}:{line}: {why}" for line, why in _wrong_script(text)]
    if PATCH in files:
        found += read_patch(files[PATCH], where=PATCH)[1]
    if CASES in files:
        found += read_cases(files[CASES], where=CASES)[1]
    return found


def _wrong_script(text: str) -> Iterator[tuple[int, str]]:
    """(line, problem) of a Python file: it must parse, and import the standard library alone."""
    try:
        tree = ast.parse(text)
    except SyntaxError as e:
        yield e.lineno or 1, f"is not Python: {e.msg}"
        return
    except (ValueError, RecursionError, MemoryError):
        yield 1, "is not Python that can be read"
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or ""] if not node.level else [""]
        else:
            continue
        for name in names:
            if name.split(".")[0] not in sys.stdlib_module_names:
                yield node.lineno, f"imports {name or 'a sibling'!r}; scripts stand alone, with the standard library"
