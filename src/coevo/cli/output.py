"""How verbs print: a table for people, JSON for programs, `key: value` as the last lines."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any

SHORT = 12
"""Cells of at most so many characters are not folded, however narrow the terminal; of the first column, twice as many."""


def plain(value: Any) -> Any:
    """`value` as what JSON can hold: dataclasses become mappings, non-finite floats become their names."""
    if is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, Mapping):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(v) for v in value]
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, Path):
        return str(value)
    tolist = getattr(value, "tolist", None)
    return plain(tolist()) if tolist is not None else repr(value)


def print_json(value: Any) -> None:
    print(json.dumps(plain(value), indent=2, ensure_ascii=True))


def print_facts(facts: Mapping[str, Any]) -> None:
    """The greppable end of a command."""
    for key, value in facts.items():
        if value is not None:
            print(f"{key}: {show(value)}")


def show(value: Any) -> str:
    """A number in as many digits as a person wants to read; words one after the other."""
    if isinstance(value, list) and all(isinstance(word, str) for word in value):
        return ", ".join(value) or "none"
    if isinstance(value, bool) or not isinstance(value, float):
        return str(value)
    return f"{value:.10g}" if abs(value) >= 1e-3 or value == 0 else f"{value:.4g}"


def _number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def print_table(headers: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Columns that fit a terminal; tab-separated lines when the output is not one."""
    texts = [[("" if cell is None else show(cell)) for cell in row] for row in rows]
    if not sys.stdout.isatty():
        for row in [list(headers), *texts]:
            print("\t".join(row))
        return
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE, pad_edge=False)
    for index, header in enumerate(headers):
        cells = [row[index] for row in texts if row[index]]
        short = max(map(len, cells), default=0)
        table.add_column(
            header,
            overflow="fold",
            min_width=short if short <= (SHORT if index else 2 * SHORT) else None,
            justify="right" if cells and all(map(_number, cells)) else "left",
        )
    for row in texts:
        table.add_row(*map(Text, row))
    Console().print(table)
