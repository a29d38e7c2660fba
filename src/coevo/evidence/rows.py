"""From evidence rows in memory to a frame. Readers of files are beside this one."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from coevo.evidence.types import NUMBERS, TEXTS, WORDS, Frame, Words


def frame_of(rows: Iterable[Mapping[str, Any]], *, source: str = "") -> Frame:
    """The frame of rows of schema 1 (any column may be left out; unknown ones are kept where they are numbers or words)."""
    kept = [dict(row) for row in rows]
    names = dict.fromkeys(name for row in kept for name in row)
    numbers: dict[str, np.ndarray] = {}
    words: dict[str, Words] = {}
    for name in names:
        if name in TEXTS:
            continue
        values = [row.get(name) for row in kept]
        if name == "parts":
            for part in dict.fromkeys(p for value in values if isinstance(value, Mapping) for p in value):
                column = [value.get(part) if isinstance(value, Mapping) else None for value in values]
                numbers[f"parts.{part}"] = _numbers(column)
        elif name in NUMBERS or (name not in WORDS and all(v is None or isinstance(v, int | float) for v in values)):
            numbers[name] = _numbers(values)
        else:
            words[name] = _words(values)
    return Frame(
        rows=len(kept),
        numbers_by_name=numbers,
        words_by_name=words,
        source=source,
        fetch=lambda wanted: [kept[i] for i in wanted],
    )


def _numbers(values: list[Any]) -> np.ndarray:
    return np.array([_number(value) for value in values], dtype=np.float64)


def _number(value: Any) -> float:
    if isinstance(value, bool | int | float):
        try:
            found = float(value)
        except OverflowError:
            return math.nan
        return found if math.isfinite(found) else math.nan
    return math.nan


def _words(values: list[Any]) -> Words:
    known: dict[str, int] = {}
    codes = [-1 if value is None else known.setdefault(str(value), len(known)) for value in values]
    return Words(np.array(codes, dtype=np.int64), tuple(known))
