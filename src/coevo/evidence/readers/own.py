"""Schema 1: the rows that coevo writes and exports, and that its trainer `command` asks for (docs/rewards.md). Rows of any other
origin are read by the same names, as far as they have them."""

from __future__ import annotations

from collections.abc import Collection

from coevo.evidence.layouts import Layout

TELLING = {"reward", "response", "truth", "parts", "meaning_ok", "contract_ok", "fitness", "tokens", "advantage"}
"""A row says something with any of these."""


def recognises(columns: Collection[str]) -> bool:
    return bool(TELLING & set(columns)) or any(name.startswith(("parts.", "text.")) for name in columns)


LAYOUT = Layout(
    name="coevo",
    title="evidence rows, schema 1 (coevo)",
    recognises=recognises,
    truth='where rows are written: row["truth"] = hidden(row["response"])',
)
