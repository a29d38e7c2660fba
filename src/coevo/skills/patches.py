"""Patches as plain data: what apply.py prints and patch.yaml holds."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from coevo.config import plain_yaml
from coevo.errors import ConfigError
from coevo.skills.contents import inside
from coevo.skills.types import Patch

MOST_CHANGES = 8
MOST_WHY = 2000
"""Characters of a reason; the rest is cut."""
_DOTTED = re.compile(r"[a-z_][a-z0-9_]*(\.[A-Za-z0-9_][A-Za-z0-9_:/-]*)*")


def patch_from(value: Any) -> Patch | str:
    """The patch that plain data says, or what is wrong with it. Whether a recipe has such names and takes such values is the lab's to say."""
    if not isinstance(value, Mapping):
        return f"a patch is an object with 'sets' (or 'files') and 'why', not {_kind(value)}"
    if unknown := set(value) - {"sets", "files", "why"}:
        return f"unknown key {sorted(map(str, unknown))[0][:80]!r}; a patch has sets, files, why"
    sets, files, why = value.get("sets", {}), value.get("files", {}), value.get("why", "")
    if not isinstance(why, str):
        return f"'why' must be a text, not {_kind(why)}"
    if not isinstance(sets, Mapping) or not isinstance(files, Mapping):
        return "'sets' and 'files' must be objects"
    if len(sets) + len(files) > MOST_CHANGES:
        return f"it changes {len(sets) + len(files)} things; a skill changes one, and never over {MOST_CHANGES}"
    for name, new in sets.items():
        if not isinstance(name, str) or len(name) > 200 or not _DOTTED.fullmatch(name):
            return f"{str(name)[:80]!r} is no dotted name of a setting"
        if not _plain(new):
            return f"the new value of {name!r} is not plain data (numbers, texts, lists, objects), or too deep"
    for name, text in files.items():
        if not isinstance(name, str) or not inside(name):
            return f"{str(name)[:80]!r} is no path inside the harness"
        if not (text is None or (isinstance(text, str) and _encodable(text))):
            return f"the new text of {name!r} must be a text, or null"
    return Patch(dict(sets), one_line(why), dict(files))


def one_line(text: str) -> str:
    """A script's word as one line that can be stored: bounded, and without what UTF-8 cannot hold."""
    return " ".join(text.encode("utf-8", "replace").decode().split())[:MOST_WHY]


def read_patch(text: str, *, where: str) -> tuple[Patch | None, list[str]]:
    """assets/patch.yaml, or what is wrong with it."""
    try:
        found = patch_from(plain_yaml(text, where=where))
    except ConfigError as e:
        return None, [str(e)]
    if isinstance(found, str):
        return None, [f"{where}:1: {found}"]
    return (found, []) if not found.empty else (None, [f"{where}:1: it changes nothing; name a setting under 'sets'"])


def applied(recipe: Mapping[str, Any], patch: Patch) -> dict[str, Any]:
    """The recipe with a patch's settings, for looking at: plain data, unchecked. A null removes the key (the default applies again)."""
    result: dict[str, Any] = json.loads(json.dumps(recipe))
    for name, value in patch.sets.items():
        *parents, leaf = name.split(".")
        node = result
        for part in parents:
            child = node.get(part)
            node[part] = node = child if isinstance(child, dict) else {}
        if value is None:
            node.pop(leaf, None)
        else:
            node[leaf] = value
    return result


def _plain(value: Any, depth: int = 6) -> bool:
    if value is None or isinstance(value, bool | int):
        return True
    if isinstance(value, str):
        return _encodable(value)
    if isinstance(value, float):
        return value == value and abs(value) != float("inf")
    if not depth:
        return False
    if isinstance(value, Mapping):
        return all(isinstance(k, str) and _encodable(k) and _plain(v, depth - 1) for k, v in value.items())
    return isinstance(value, list) and all(_plain(v, depth - 1) for v in value)


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _kind(value: Any) -> str:
    kinds = {"NoneType": "null", "dict": "an object", "list": "a list", "str": "a text"}
    return kinds.get(type(value).__name__, f"a {type(value).__name__}")
