"""Every setting is read by something that acts on it: one that nothing reads would promise what does not happen."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest

import coevo
from coevo.bench.settings import StudyConfig
from coevo.config import Config
from coevo.training.settings import Recipe
from coevo.trajectories.settings import SynthConfig

SOURCE = Path(coevo.__file__).parent
HOLDERS = {"config", "study"}
"""What configs are called in the rooms that define them."""


def sections(config: type[Config]) -> Iterator[type[Config]]:
    """A config and those in its fields, each once; also where a field may be None."""
    found = [config]
    for one in found:
        yield one
        for field in one.model_fields.values():
            for kind in (field.annotation, *get_args(field.annotation)):
                if isinstance(kind, type) and issubclass(kind, Config) and kind not in found:
                    found.append(kind)


def read_by(tree: ast.Module) -> Iterator[str]:
    """Names of attributes that a file reads, but for reads in validators, which do not act."""
    checks = [
        n
        for n in ast.walk(tree)
        if isinstance(n, ast.FunctionDef) and any("validator" in ast.unparse(d) for d in n.decorator_list)
    ]
    inside = {id(n) for check in checks for n in ast.walk(check)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load) and id(node) not in inside:
            yield node.attr


def room_of(section: type[Config]) -> Path:
    return SOURCE.joinpath(*section.__module__.split(".")[1:-1])


@pytest.mark.parametrize("root", [Recipe, SynthConfig, StudyConfig])
def test_every_setting_is_read_where_its_section_is_known(root: type[Config]) -> None:
    """A read counts in a file that names the section or a field that holds it, or in the section's own room where something is
    called as configs are: `name` and `seed` are read somewhere in any program."""
    files: dict[Path, tuple[set[str], set[str]]] = {}
    for path in SOURCE.rglob("*.py"):
        if "library" not in path.parts:
            text = path.read_text(encoding="utf-8")
            tree = ast.parse(text)
            words = {
                n.id if isinstance(n, ast.Name) else n.name
                for n in ast.walk(tree)
                if isinstance(n, ast.Name | ast.ClassDef)
            }
            reads = set(read_by(tree))
            files[path] = words | reads, reads
    known = list(sections(root))
    assert len(known) > 5
    names_of = {
        section: {section.__name__}
        | {
            name
            for owner in known
            for name, field in owner.model_fields.items()
            if section in (field.annotation, *get_args(field.annotation))
        }
        for section in known
    }
    unread = [
        f"{section.__name__}.{name}"
        for section in known
        for name in section.model_fields
        if not any(
            name in reads and (words & names_of[section] or (words & HOLDERS and path.parent == room_of(section)))
            for path, (words, reads) in files.items()
        )
    ]
    assert not unread, f"settings that nothing reads; use them or remove them: {unread}"
