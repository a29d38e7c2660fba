"""The layouts that are known, one file each. The first that recognises the columns reads them."""

from __future__ import annotations

from collections.abc import Collection

from coevo.errors import UsageError, pick
from coevo.evidence.layouts import Layout
from coevo.evidence.readers import own, payload, roll, trl, verl

LAYOUTS: dict[str, Layout] = {module.LAYOUT.name: module.LAYOUT for module in (payload, verl, roll, trl, own)}


def layout_of(columns: Collection[str], *, format: str, source: str) -> Layout:
    """The layout named `format`, or the first that recognises these columns. Raises `UsageError` that says what the source looks like."""
    if format != "auto":
        return pick(format, LAYOUTS, kind="evidence format")
    for layout in LAYOUTS.values():
        if layout.recognises(columns):
            return layout
    seen = ", ".join(sorted(columns)[:12]) or "no columns"
    raise UsageError(
        f"{source} is no evidence that is known: its rows have {seen}. Known are {known_formats()}; or name the columns as in schema 1"
    )


def known_formats() -> str:
    return "; ".join(f"{layout.name}: {layout.title}" for layout in LAYOUTS.values())
