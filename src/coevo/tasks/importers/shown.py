"""Which answers a prompt gives away: the calls of the entry that its text shows, and how to take them out."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from coevo.tasks.values import to_json

_LONGEST = 4000
"""Characters of a call that is looked for in a text."""

_MOST = 500
"""Calls that are looked at in one text."""


def call_key(args: Sequence[Any], kwargs: Mapping[str, Any]) -> str:
    """Equal for equal calls."""
    return json.dumps([to_json(list(args)), sorted((name, to_json(value)) for name, value in kwargs.items())])


def shown_calls(text: str, entry: str) -> set[str]:
    """Keys of all calls of `entry` with literal arguments that stand anywhere in `text`."""
    return set(_calls(text, entry))


def without_examples(prompt: str, entry: str, keys: Collection[str]) -> str:
    """The prompt without the doctest examples (">>>" and what follows) whose call is among `keys`."""
    kept: list[str] = []
    cutting = False
    for line in prompt.splitlines(keepends=True):
        text = line.strip()
        if text.startswith(">>>"):
            cutting = bool(shown_calls(text, entry) & set(keys))
        elif not text or '"""' in text or "'''" in text:
            cutting = False
        if not cutting:
            kept.append(line)
    return "".join(kept)


def _calls(text: str, entry: str) -> Iterator[str]:
    for match in islice(re.finditer(rf"(?<![\w.]){re.escape(entry)}\s*\(", text), _MOST):
        end = _closing(text, match.end(), match.start() + _LONGEST)
        if end is None:
            continue
        try:
            call = ast.parse(" ".join(text[match.start() : end].split("\n")), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        if isinstance(call, ast.Call):
            yield from _key(call)


def _closing(text: str, start: int, stop: int) -> int | None:
    """Where the parenthesis opened just before `start` is closed; brackets inside string literals do not count."""
    depth, quote, position = 1, "", start
    while position < min(stop, len(text)):
        mark = text[position]
        if quote:
            position += mark == "\\"
            quote = "" if mark == quote else quote
        elif mark in "'\"":
            quote = mark
        elif mark in "([{":
            depth += 1
        elif mark in ")]}":
            depth -= 1
            if not depth:
                return position + 1
        position += 1
    return None


def _key(call: ast.Call) -> Iterator[str]:
    try:
        args = [ast.literal_eval(argument) for argument in call.args]
        kwargs = {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords if keyword.arg}
        yield call_key(args, kwargs)
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return
