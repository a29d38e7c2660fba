"""Where skills stand: coevo's own, folders of the user's, a lab's harness/skills. A later shelf's skill hides an earlier one of the same name."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path

from coevo.errors import StoreError, UsageError, pick
from coevo.skills.contents import PROJECTIONS
from coevo.skills.reading import problems, read_skill
from coevo.skills.types import Origin, Skill

LIBRARY = Path(__file__).parent / "library"
TOMBSTONES = "tombstones.jsonl"
"""Of a folder of skills: one demoted skill a line, with name, digest, reason."""


@cache
def shipped() -> tuple[Skill, ...]:
    """coevo's own skills, by name; read once."""
    return tuple(read_skill(folder) for folder in sorted(LIBRARY.iterdir()) if (folder / "SKILL.md").is_file())


@dataclass(frozen=True)
class Shelf:
    """Skills from several folders, read once."""

    by_name: Mapping[str, Skill]
    broken: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Folder -> what keeps it from being a skill. Told, never fatal: one bad import must not take the others away."""
    tombstones: Mapping[str, str] = field(default_factory=dict)
    """Digest -> reason."""

    @property
    def skills(self) -> tuple[Skill, ...]:
        """By name, tombstones included."""
        return tuple(self.by_name[name] for name in sorted(self.by_name))

    @cached_property
    def _own(self) -> frozenset[str]:
        return frozenset(skill.digest for skill in shipped())

    def get(self, name: str) -> Skill:
        """Raises `ConfigError` that lists what is known."""
        return pick(name, self.by_name, kind="skill")

    def origin_of(self, skill: Skill) -> Origin:
        """Who wrote it: what it says of itself counts for no more than a label."""
        if skill.digest in self._own:
            return Origin.SHIPPED
        return Origin.AUTO if skill.metadata.get("origin") == Origin.AUTO else Origin.IMPORTED


def open_shelf(folders: Iterable[str | Path] = (), *, library: bool = True) -> Shelf:
    """The shipped skills and those of `folders` (each a skill, or a folder of skills). Raises `UsageError` for a folder that is not there."""
    by_name = {skill.name: skill for skill in shipped()} if library else {}
    broken: dict[str, tuple[str, ...]] = {}
    tombstones: dict[str, str] = {}
    for folder in map(Path, folders):
        if not folder.is_dir():
            raise UsageError(f"{folder} is no folder of skills; name a skill's folder, or one that holds some")
        tombstones |= read_tombstones(folder)
        for place in [folder] if (folder / "SKILL.md").is_file() else _places(folder):
            wrong = problems(place)
            if wrong:
                broken[str(place)] = tuple(wrong)
            else:
                skill = read_skill(place)
                by_name[skill.name] = skill
    return Shelf(by_name, broken, tombstones)


def import_skill(source: str | Path, into: str | Path) -> Skill:
    """Copy a skill into a folder of skills. It starts as a candidate, whatever it claims: its state is folded from uses, of which it has none here.

    Copies the texts that were checked, without modes, links, or its own evidence page. Raises `UsageError` for a folder that is no skill, or a name
    that is taken by a different one.
    """
    skill = read_skill(source)
    return copy_skill(skill, into)


def copy_skill(skill: Skill, into: str | Path, *, evidence: str | None = None, replace: bool = False) -> Skill:
    """A plain copy of a skill in the folder `into`, complete or not there at all. `evidence` is its evidence page."""
    into = Path(into)
    target = into / skill.name
    if target.exists() and not replace:
        if not problems(target) and read_skill(target).digest == skill.digest:
            if evidence is not None:
                _write(target / "references" / "evidence.md", evidence)
            return read_skill(target)
        raise UsageError(f"{target} is there already, and differs; remove it, or import into another folder")
    pages = {} if evidence is None else {"references/evidence.md": evidence}
    texts = {**{name: text for name, text in skill.files.items() if name not in PROJECTIONS}, **pages}
    write_folder(target, texts, replace=replace)
    return read_skill(target)


def write_folder(target: Path, texts: Mapping[str, str], *, replace: bool = False) -> None:
    """Write a skill's texts as a folder, which appears at once. Raises `StoreError` when the disk does not take it."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".coevo-skill-", dir=target.parent) as scratch:
            made = Path(scratch) / target.name
            for name, text in texts.items():
                _write(made / name, text)
            if replace and target.exists():
                os.rename(target, Path(scratch) / "old")
            os.rename(made, target)
    except OSError as e:
        raise StoreError(f"cannot write the skill {target}: {e.strerror or e}") from None


def export_skills(skills: Sequence[tuple[Skill, str]], to: str | Path) -> list[Path]:
    """Copy skills, each with its evidence page, to where a coding agent finds them (`.claude/skills`). Replaces what an earlier export left.

    Raises `UsageError`, before anything is written, when a folder of that name is there and is no earlier version of the skill.
    """
    to = Path(to)
    for skill, _ in skills:
        page = to / skill.name / "SKILL.md"
        if (to / skill.name).exists() and not page.is_file():
            raise UsageError(f"{to / skill.name} is there already and is no skill; export to another folder")
    done = [copy_skill(skill, to, evidence=page, replace=True) for skill, page in skills]
    return [skill.folder for skill in done]


def read_tombstones(folder: str | Path) -> dict[str, str]:
    """Digest -> reason, of a folder of skills. Raises `UsageError` for a line that is none: a forgotten grave would offer the dead again."""
    path = Path(folder) / TOMBSTONES
    if not path.is_file():
        return {}
    found: dict[str, str] = {}
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        try:
            data = json.loads(line)
            found[str(data["digest"])] = str(data["reason"])
        except (ValueError, KeyError, TypeError):
            raise UsageError(f"{path}:{number}: is no tombstone; a line has name, digest, reason") from None
    return found


def bury(folder: str | Path, skill: Skill, reason: str) -> None:
    """Add a tombstone for this version of a skill. The skill itself stays where it is."""
    if not reason.strip():
        raise UsageError(f"a tombstone of {skill.name!r} needs a reason")
    if skill.digest in read_tombstones(folder):
        return
    entry = {"name": skill.name, "digest": skill.digest, "reason": " ".join(reason.split())}
    with (Path(folder) / TOMBSTONES).open("a", encoding="utf-8") as file:
        file.write(json.dumps(entry, ensure_ascii=False) + "\n")


def _places(folder: Path) -> list[Path]:
    return sorted(
        p for p in folder.iterdir() if p.is_dir() and not p.is_symlink() and not p.name.startswith((".", "_"))
    )


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="\n")


__all__ = [
    "Shelf",
    "bury",
    "copy_skill",
    "export_skills",
    "import_skill",
    "open_shelf",
    "read_tombstones",
    "shipped",
    "write_folder",
]
