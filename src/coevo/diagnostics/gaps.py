"""What a diagnosis cannot know, folded: which column would let whom speak, the one that tells most first."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from coevo.diagnostics.recording import BETWEEN, LACKING, how

_QUOTED = re.compile(r"'([^']+)'")
_MORE = "it takes"
"""In the reason of a diagnostic that only has too little to go by."""

Need = tuple[str, tuple[str, ...]]
"""A diagnostic, and the columns of which it lacks one."""


class Gap(NamedTuple):
    """One thing that is missing."""

    what: str
    """A column to record; or what is missing, in words."""
    column: bool
    ids: tuple[str, ...]
    """Diagnostics that it would let speak (some of them want another column, too)."""


def needs_of(unknown: Mapping[str, str]) -> list[Need]:
    """The columns that are missing, as the reasons name them: one entry for each diagnostic and choice of columns."""
    return [
        (id, tuple(_QUOTED.findall(piece.split(":")[0])))
        for id, reason in unknown.items()
        if reason.startswith(LACKING)
        for piece in reason.split(BETWEEN)
    ]


def lacks(unknown: Mapping[str, str], column: str) -> bool:
    """Whether some diagnostic says nothing for want of just this column."""
    return any(names == (column,) for _, names in needs_of(unknown))


def gaps(unknown: Mapping[str, str]) -> list[Gap]:
    """Few columns that cover all that is missing: each time the one that most diagnostics wait for. Then what no column would mend."""
    rest = [need for need in needs_of(unknown) if not _of_texts(need[1])]
    found: list[Gap] = []
    while rest:
        counts: dict[str, int] = {}
        for _, names in rest:
            for name in names:
                if not name.startswith("text."):
                    counts[name] = counts.get(name, 0) + 1
        best = max(counts, key=lambda name: counts[name])
        found.append(Gap(best, True, _once(id for id, names in rest if best in names)))
        rest = [need for need in rest if best not in need[1]]
    texts = _once(id for id, names in needs_of(unknown) if _of_texts(names))
    if texts:
        found.append(Gap("prompts and responses that hold such a thing (programs, tests, searches)", False, texts))
    for reason in dict.fromkeys(r for r in unknown.values() if not r.startswith(LACKING) and _MORE not in r):
        found.append(Gap(reason, False, tuple(id for id, why in unknown.items() if why == reason)))
    if few := tuple(id for id, why in unknown.items() if not why.startswith(LACKING) and _MORE in why):
        found.append(Gap("more steps or rollouts than there are yet", False, few))
    return found


def folded(unknown: Mapping[str, str]) -> list[str]:
    """A line for each gap that keeps several silent; those that keep one silent in a line together."""
    found = gaps(unknown)
    several = [gap for gap in found if gap.column and len(gap.ids) > 1]
    single = [gap for gap in found if gap.column and len(gap.ids) == 1]
    lines = [f"column {gap.what}: {how(gap.what) or 'record it'} -> {', '.join(gap.ids)}" for gap in several]
    if single:
        lines.append(f"one each by column {', '.join(f'{gap.what} -> {gap.ids[0]}' for gap in single)}")
    return [*lines, *(f"{gap.what} -> {', '.join(gap.ids)}" for gap in found if not gap.column)]


def _of_texts(names: tuple[str, ...]) -> bool:
    return all(name.startswith("text.") for name in names)


def _once(ids: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(ids))
