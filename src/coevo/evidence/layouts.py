"""A layout says what a trainer calls things: which foreign column is which of ours. The readers are values of it, one file each in
`coevo.evidence.readers`; where the bytes lie (JSONL, Parquet, a run) is `coevo.evidence.sources`' affair.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from coevo.evidence.types import NUMBERS, WORDS

Record = dict[str, Any]
Numbers = dict[str, np.ndarray]
_SCHEMA = frozenset((*NUMBERS, *WORDS))


@dataclass(frozen=True)
class Layout:
    """How one trainer writes rollouts."""

    name: str
    title: str
    """For a person: whose it is."""
    recognises: Callable[[Collection[str]], bool]
    """Whether records with these columns are of this layout."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Foreign column -> ours. Others keep their names."""
    is_part: Callable[[str], bool] = lambda name: False
    """Whether a column (in foreign words) that `names` does not know is a part of the reward, if it holds numbers."""
    unfold: Callable[[Record], list[Record] | None] | None = None
    """Records that hold many rows, or hide columns in a text: the rows in one; None where it is no such record."""
    derive: Callable[[Numbers], list[str]] | None = None
    """Fills in columns from others, in place, once all rows are read; returns notes."""
    summed: bool = False
    """Whether `derive` makes the reward the sum of its parts: then a row does so, too."""
    note: str = ""
    """What one should know of evidence of this kind."""
    truth: str = ""
    """The line of code that adds the column `truth` to what this trainer writes."""

    def our_name(self, name: str) -> str:
        return self.names.get(name, name)

    def names_part(self, name: str) -> bool:
        """Whether a column of numbers, in foreign words, is a part of the reward: a name of schema 1 is what it says."""
        return self.our_name(name) == name and name not in _SCHEMA and self.is_part(name)

    def row(self, record: Record) -> Record:
        """A record in our words, texts as text."""
        out: Record = {}
        parts: dict[str, Any] = {}
        for name, value in record.items():
            ours = self.our_name(name)
            if ours in ("prompt", "response"):
                out[ours] = plain_text(value)
            elif self.names_part(name) and (value is None or isinstance(value, int | float)):
                parts[name] = value
            else:
                out[ours] = value
        if parts:
            out["parts"] = {**(out.get("parts") or {}), **parts}
        if self.summed and "reward" not in out and any(value is not None for value in parts.values()):
            out["reward"] = float(sum(value for value in parts.values() if value is not None))
        return out


def plain_text(value: Any) -> str | None:
    """A prompt or response as text: chats (lists of messages) become `role: content`, parts of a content are joined."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        content = value.get("content")
        text = plain_text(content) if content is not None else str(value.get("text") or "")
        calls = value.get("tool_calls")
        return f"{text or ''}\n{calls}" if calls else (text or "")
    if isinstance(value, list | tuple | np.ndarray):
        messages = [m for m in value if m is not None]
        if len(messages) == 1 and isinstance(messages[0], Mapping) and messages[0].get("role") in (None, "assistant"):
            return plain_text(messages[0])
        said = [
            f"{m['role']}: {plain_text(m)}" if isinstance(m, Mapping) and m.get("role") else plain_text(m) or ""
            for m in messages
        ]
        return "\n".join(said)
    return str(value)
