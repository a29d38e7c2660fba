"""Plain data as short text, for feedback. Never slow and never an error, whatever the value."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

MAX_DIGITS = 60
"""Longer integers are shown by their ends and their number of digits."""


def show(value: Any, limit: int = 160) -> str:
    """`repr` of plain data in about `limit` characters; the middle of what is long gives way to "..."."""
    return clip(_text(value, limit), limit)


def clip(text: str, limit: int) -> str:
    """`text` in at most `limit` characters, cut in the middle."""
    if len(text) <= limit:
        return text
    head = max(0, (limit - 5) * 2 // 3)
    tail = max(0, limit - 5 - head)
    return f"{text[:head]} ... {text[len(text) - tail :]}"[:limit]


def printable(text: str) -> str:
    """`text` without characters that a store or a terminal would refuse (NUL, lone surrogates)."""
    return text.replace("\0", "\\x00").encode("utf-8", "backslashreplace").decode("utf-8")


def _text(value: Any, limit: int) -> str:
    if isinstance(value, bool) or value is None:
        return repr(value)
    if isinstance(value, int):
        return _integer(value)
    if isinstance(value, str):
        if len(value) > limit:
            value = value[: limit * 2 // 3] + " ... " + value[-limit // 3 :]
        return printable(repr(value))
    if isinstance(value, bytes):
        return repr(value if len(value) <= limit else value[:limit]) + ("" if len(value) <= limit else " ...")
    if isinstance(value, np.ndarray):
        shape = "x".join(map(str, value.shape))
        flat = value.reshape(-1)[:limit].tolist()
        return f"array({shape}) {_items(flat, value.size, '[', ']', limit)}"
    if isinstance(value, np.generic):
        plain = value.item()
        return str(value) if isinstance(plain, np.generic) else _text(plain, limit)  # a long double stays one
    if isinstance(value, list):
        return _items(value, len(value), "[", "]", limit)
    if isinstance(value, tuple):
        return _items(value, len(value), "(", ",)" if len(value) == 1 else ")", limit)
    if isinstance(value, set | frozenset):
        name = "set" if isinstance(value, set) else "frozenset"
        return _items(value, len(value), "{", "}", limit) if value else f"{name}()"
    if isinstance(value, dict):
        return _dict(value, limit)
    return repr(value)


def _integer(value: int) -> str:
    digits = int(abs(value).bit_length() * math.log10(2)) + 1
    if digits <= MAX_DIGITS:
        return repr(value)
    if digits <= 4000:  # past 4300 digits, int -> str is refused by Python itself
        text = repr(value)
        return f"{text[:20]}...{text[-10:]} ({len(text.lstrip('-'))} digits)"
    sign = "-" if value < 0 else ""
    return f"{sign}(an integer of about {digits} digits, ending in {abs(value) % 10**10:010d})"


def _items(items: Iterable[Any], count: int, left: str, right: str, limit: int) -> str:
    parts: list[str] = []
    used = 0
    for item in items:
        if used > limit:
            return f"{left}{', '.join(parts)}, ... {count} items{right}"
        parts.append(_text(item, limit))
        used += len(parts[-1]) + 2
    if len(parts) < count:
        return f"{left}{', '.join(parts)}, ... {count} items{right}"
    return f"{left}{', '.join(parts)}{right}"


def _dict(value: dict[Any, Any], limit: int) -> str:
    parts: list[str] = []
    used = 0
    for key, item in value.items():
        if used > limit:
            return f"{{{', '.join(parts)}, ... {len(value)} items}}"
        parts.append(f"{_text(key, limit)}: {_text(item, limit)}")
        used += len(parts[-1]) + 2
    return f"{{{', '.join(parts)}}}"
