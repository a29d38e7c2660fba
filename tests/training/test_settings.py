"""Every setting of a recipe is read by something that acts on it: one that nothing reads would promise what does not happen."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import coevo
from coevo.config import Config
from coevo.training.settings import Recipe

SOURCE = Path(coevo.__file__).parent


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
    """Names of attributes that a file reads, but for reads in classes of settings: a validator does not act."""
    for node in tree.body:
        bases = [base.id for base in getattr(node, "bases", ()) if isinstance(base, ast.Name)]
        if "Config" not in bases:
            yield from (n.attr for n in ast.walk(node) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Load))


def room_of(section: type[Config]) -> Path:
    return SOURCE.joinpath(*section.__module__.split(".")[1:-1])


def test_every_setting_is_read_where_its_section_is_known() -> None:
    """A read counts in a file that names the section or a field that holds it, or in the section's own room where something is
    called `config`: `name` and `seed` are read somewhere in any program."""
    files: dict[Path, tuple[set[str], set[str]]] = {}
    for path in SOURCE.rglob("*.py"):
        if "library" not in path.parts:
            text = path.read_text(encoding="utf-8")
            tree = ast.parse(text)
            words = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
            reads = set(read_by(tree))
            files[path] = words | reads, reads
    known = list(sections(Recipe))
    assert len(known) > 12
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
            name in reads and (words & names_of[section] or ("config" in words and path.parent == room_of(section)))
            for path, (words, reads) in files.items()
        )
    ]
    assert not unread, f"settings that nothing reads; use them or remove them: {unread}"
