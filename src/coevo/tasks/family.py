"""Families: one folder, many tasks, told apart by whole numbers (see `coevo.tasks.types`, "One folder may hold a family")."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from coevo.errors import TaskError, pick
from coevo.tasks.types import Parameter, TaskConfig

_TEXTS = ("statement", "title", "citation")


def resolve_family(config: TaskConfig, given: Mapping[str, str], *, where: str) -> TaskConfig:
    """The member of the family that `given` (parameter values as text) names; a plain task takes none and is returned as is.

    `{n}` becomes the value in statement, title and citation; an instance value that is exactly "{n}" becomes the number;
    `best_known_table` is looked up; the name becomes the full reference. The result has no parameters left.
    """
    if not config.parameters:
        if given:
            raise TaskError(
                f"task {config.name!r} has no parameters, but {', '.join(f'{k}={v}' for k, v in given.items())} was given"
            )
        if config.best_known_table:
            raise TaskError(f"{where}: best_known_table is for families; give parameters, or use best_known")
        return config
    values = _values(config, given, where)
    _check_table(config, where)
    changes: dict[str, Any] = {text: _worded(getattr(config, text), values) for text in _TEXTS}
    changes["name"] = config.name + ":" + ",".join(f"{name}={value}" for name, value in values.items())
    changes["instances"] = {
        split: [_filled(instance, values) for instance in instances] for split, instances in config.instances.items()
    }
    changes["best_known"] = config.best_known_table.get(_key(values), config.best_known)
    changes |= {"parameters": {}, "best_known_table": {}}
    kept = {name: getattr(config, name) for name in config.model_fields_set}
    return TaskConfig(**(kept | changes))


def _values(config: TaskConfig, given: Mapping[str, str], where: str) -> dict[str, int]:
    for name in given:
        pick(name, config.parameters, kind=f"parameter of task {config.name!r}")
    values = {}
    for name, parameter in config.parameters.items():
        if not re.fullmatch(r"[a-z_]+", name):
            raise TaskError(f"{where}: parameters: {name!r} is no name; use lower-case letters and underscores")
        if not parameter.min <= parameter.default <= parameter.max:
            raise TaskError(
                f"{where}: parameters.{name}: the default {parameter.default} is not within {parameter.min} to {parameter.max}"
            )
        values[name] = _value(config.name, name, parameter, given[name]) if name in given else parameter.default
    return values


def _value(task: str, name: str, parameter: Parameter, text: str) -> int:
    if not re.fullmatch(r"-?\d{1,18}", text):
        raise TaskError(f"task {task!r}: {name}={text} is not a whole number; write {name}={parameter.default}, say")
    value = int(text)
    if not parameter.min <= value <= parameter.max:
        raise TaskError(
            f"task {task!r}: {name}={value} is out of range; {name} goes from {parameter.min} to {parameter.max}"
        )
    return value


def _key(values: Mapping[str, int]) -> str:
    return ",".join(f"{name}={values[name]}" for name in sorted(values))


def _check_table(config: TaskConfig, where: str) -> None:
    pattern = ",".join(rf"{re.escape(name)}=-?\d+" for name in sorted(config.parameters))
    for key in config.best_known_table:
        if not re.fullmatch(pattern, key):
            example = _key({name: parameter.default for name, parameter in config.parameters.items()})
            raise TaskError(f"{where}: best_known_table: {key!r} names no member of the family; write {example!r}, say")


def _filled(value: Any, values: Mapping[str, int]) -> Any:
    """`value` with the texts in it that are exactly "{name}" replaced by the number."""
    if isinstance(value, str):
        return next((number for name, number in values.items() if value == f"{{{name}}}"), value)
    if isinstance(value, Mapping):
        return {key: _filled(item, values) for key, item in value.items()}
    if isinstance(value, list):
        return [_filled(item, values) for item in value]
    return value


def _worded(text: str, values: Mapping[str, int]) -> str:
    for name, number in values.items():
        text = text.replace(f"{{{name}}}", str(number))
    return text
