"""Writes the tables of docs/diagnose.md from the code: `python -m tests.diagnostics.tables`."""

from __future__ import annotations

import re
from pathlib import Path

from coevo.diagnostics.registry import shipped
from coevo.diagnostics.rules import RULES
from coevo.diagnostics.types import Layer, Levels

DOCS = Path(__file__).parents[2] / "docs" / "diagnose.md"


def diagnostics() -> str:
    """One table a layer."""
    parts = []
    for layer in Layer:
        rows = [
            f"| `{d.id}` | {_cell(d.formula)} | {levels(d.levels)} | "
            f"{_cell(', '.join(d.needs))}{', a baseline' if d.needs_baseline else ''} |"
            for d in shipped().values()
            if d.layer is layer
        ]
        head = ["| id | value | warn / critical | needs |", "|---|---|---|---|"]
        parts.append("\n".join([f"### {layer.value.capitalize()}", "", *head, *rows]))
    return "\n\n".join(parts)


def rules() -> str:
    rows = [f"| `{r.id}` | {', '.join(r.cites)} | {_cell(r.says)} | {', '.join(r.suggests)} |" for r in RULES]
    return "\n".join(["| rule | cites | it says | changes to try |", "|---|---|---|---|", *rows])


def levels(of: Levels) -> str:
    return f"{'≥' if of.critical >= of.warn else '≤'} {of.warn:g} / {of.critical:g}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def written(text: str) -> str:
    """The page with its sections `Diagnostics` and `Rules` made anew."""
    text = re.sub(r"(?s)(\n## Diagnostics\n\n).*?(?=\n\n## Rules\n)", lambda m: m[1] + diagnostics(), text)
    return re.sub(r"(?s)(\n## Rules\n\n[^|]*\n\n)\|.*?(?=\n\n## )", lambda m: m[1] + rules(), text)


if __name__ == "__main__":
    DOCS.write_text(written(DOCS.read_text(encoding="utf-8")), encoding="utf-8")
