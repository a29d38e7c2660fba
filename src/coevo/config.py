"""Frozen configs: unknown keys and bad values are errors that name the key, the value and the next step.

Every config class lives beside the code it configures and derives from `Config`. A file is YAML; the
command line adds `--set a.b=1`, whose value is read as YAML.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from stat import S_ISFIFO
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from coevo.errors import ConfigError

C = TypeVar("C", bound="Config")

MAX_YAML_VALUES = 1_000_000
"""Of one file, with its aliases written out."""

MAX_TEXT = 64 << 20
"""Bytes of a file that is read whole."""


class Config(BaseModel):
    """Base of every config: frozen, closed to unknown keys, one-line description under each field."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True, allow_inf_nan=False)


def parse(cls: type[C], data: Mapping[str, Any], *, where: str) -> C:
    """Build `cls` from plain data. `where` (a file name, say) opens every error message."""
    try:
        return cls.model_validate(dict(data))
    except ValidationError as e:
        lines = [_explain(cls, error) for error in e.errors(include_url=False)]
        raise ConfigError(f"{where}: " + "; ".join(lines)) from None


def read_yaml(path: Path) -> dict[str, Any]:
    """Read a YAML mapping, or raise a `ConfigError` that names file and line."""
    data = plain_yaml(read_text(path), where=str(path))
    if data is None:
        return {}
    if not isinstance(data, dict):
        raise ConfigError(f"{path} must hold a mapping of names to values, not a {type(data).__name__}")
    return data


def read_text(path: Path) -> str:
    """A text that a person named, whole. Raises a `ConfigError` for what is no UTF-8 file, holds more than `MAX_TEXT`, or is a pipe on disk, which might
    never end or begin (a shell's <(...) is read)."""
    try:
        if S_ISFIFO(path.stat().st_mode) and not str(path).startswith(("/dev/", "/proc/")):
            raise ConfigError(f"{path} is a pipe; write what it carries to a file first")
        with path.open("rb") as file:
            found = file.read(MAX_TEXT + 1)
    except OSError as e:
        raise ConfigError(f"cannot read {path}: {e.strerror or e}") from None
    except ValueError as e:  # A NUL in the name.
        raise ConfigError(f"cannot read {str(path)!r}: {e}") from None
    if len(found) > MAX_TEXT:
        raise ConfigError(f"{path} holds more than {MAX_TEXT >> 20} MB; is it the file you mean?")
    try:
        return found.decode("utf-8-sig")
    except UnicodeDecodeError as e:
        raise ConfigError(f"{path} is not UTF-8 text (byte {e.start:,})") from None


def plain_yaml(text: str, *, where: str) -> Any:
    """The plain data that a YAML text says: finite, a tree, every key once. Raises a `ConfigError` that begins with `where`.

    Aliases are allowed while what they stand for stays small: a kilobyte of nested ones can say a billion values.
    """
    try:
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        if node is None:
            return None
        size = _size(node, set(), {}, where)
        if size > MAX_YAML_VALUES:
            raise ConfigError(f"{where}: its aliases make it {size:,} values; {MAX_YAML_VALUES:,} are the limit")
        return loader.construct_document(node)
    except (yaml.YAMLError, ValueError) as e:  # ValueError: a date that no calendar has
        raise ConfigError(f"{where} is not valid YAML: {' '.join(str(e).split())}") from None
    except RecursionError:
        raise ConfigError(f"{where} is nested too deeply to be read") from None


def _size(node: yaml.Node, above: set[int], known: dict[int, int], where: str) -> int:
    """Values of a node with its aliases written out. Refuses a node inside itself, and a key given twice."""
    if id(node) in known:
        return known[id(node)]
    children: list[yaml.Node] = []
    if isinstance(node, yaml.SequenceNode):
        children = node.value
    elif isinstance(node, yaml.MappingNode):
        children = [part for pair in node.value for part in pair]
        _require_one_each(node, where)
    if not children:
        return 1
    if id(node) in above:
        raise ConfigError(f"{where}, line {node.start_mark.line + 1}: an alias stands inside what it names")
    above.add(id(node))
    known[id(node)] = total = 1 + sum(_size(child, above, known, where) for child in children)
    above.remove(id(node))
    return total


def _require_one_each(node: yaml.MappingNode, where: str) -> None:
    seen: set[tuple[str, str]] = set()
    for key, _ in node.value:
        if not isinstance(key, yaml.ScalarNode) or key.value == "<<":
            continue
        if (key.tag, key.value) in seen:
            raise ConfigError(
                f"{where}, line {key.start_mark.line + 1}: {key.value!r} is given twice; keep one of them"
            )
        seen.add((key.tag, key.value))


def with_sets(data: Mapping[str, Any], sets: Iterable[str]) -> dict[str, Any]:
    """Apply `a.b=1` assignments (values are YAML) to nested plain data; returns a new mapping."""
    result = _copy(data)
    for text in sets:
        key, sep, raw = text.partition("=")
        if not sep or not key.strip():
            raise ConfigError(f"--set takes name=value, not {text!r}")
        value = plain_yaml(raw, where=f"--set {key}: {raw[:200]!r}")
        *parents, leaf = key.strip().split(".")
        node = result
        for name in parents:
            child = node.setdefault(name, {})
            if not isinstance(child, dict):
                raise ConfigError(f"--set {key}: {name!r} is a value, not a group of settings")
            node = child
        node[leaf] = value
    return result


def assigned(data: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Nested plain data with dotted names set; a mapping that is given takes the place of the whole old one."""
    result = dict(data)
    for key, value in changes.items():
        head, _, rest = key.partition(".")
        if rest and not isinstance(result.get(head, {}), Mapping):
            raise ConfigError(f"{key}: {head!r} is a value, not a group of settings")
        result[head] = assigned(result.get(head) or {}, {rest: value}) if rest else value
    return result


def leaves(data: Mapping[str, Any], prefix: str = "", *, whole: Collection[str] = ()) -> Iterator[tuple[str, Any]]:
    """(dotted name, value) of nested plain data. Mappings named in `whole`, and empty ones, are one value each."""
    for name, value in data.items():
        if isinstance(value, Mapping) and value and name not in whole:
            yield from leaves(value, f"{prefix}{name}.", whole=whole)
        else:
            yield f"{prefix}{name}", value


def _copy(data: Mapping[str, Any]) -> dict[str, Any]:
    return {k: _copy(v) if isinstance(v, Mapping) else v for k, v in data.items()}


def _explain(cls: type[BaseModel], error: Any) -> str:
    path = list(error["loc"])
    name = ".".join(str(part) for part in path)
    if error["type"] == "extra_forbidden":
        known = _known_at(cls, path[:-1])
        near = get_close_matches(str(path[-1]), known, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        return f"unknown setting {name!r}.{hint} Known: {', '.join(sorted(known))}"
    if error["type"] == "missing":
        return f"setting {name!r} is missing"
    said = error["msg"].removeprefix("Value error, ")
    return f"{name} = {error.get('input')!r}: {said}" if name else said


def _known_at(cls: type[BaseModel], path: list[Any]) -> list[str]:
    model: Any = cls
    for part in path:
        field = model.model_fields.get(part) if isinstance(part, str) and hasattr(model, "model_fields") else None
        inner = getattr(field, "annotation", None)
        if inner is not None and isinstance(inner, type) and issubclass(inner, BaseModel):
            model = inner
        elif field is not None:
            return []
    return list(getattr(model, "model_fields", {}))
