"""A diagnosis as a page for a person. Texts of rollouts are hostile: whatever is not printable is shown escaped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from coevo.diagnostics.answer import answer
from coevo.diagnostics.gaps import folded, lacks
from coevo.diagnostics.recording import BETWEEN, LACKING
from coevo.diagnostics.registry import shipped
from coevo.diagnostics.sources import Diagnosed
from coevo.diagnostics.types import Diagnosis, Finding, Fired, Level
from coevo.errors import CoevoError
from coevo.evidence.types import Frame

EXCERPT = 160
"""Characters of the end of a prompt or response."""
_BARS = "▁▂▃▄▅▆▇█"
_WIDTH = 40
_STYLES = {Level.CRITICAL: "bold red", Level.WARN: "yellow", Level.UNKNOWN: "dim", Level.OK: "green"}


class Line(NamedTuple):
    text: str
    indent: str = ""
    style: str = ""
    """Of rich."""


def lines_of(one: Diagnosed, *, rows: int = 1, first: bool = True, all: bool = False) -> Iterator[Line]:
    """The page: the answer; what is wrong, with the rollouts behind it; what that means together; what cannot be known
    (folded by what is missing; with `all`, each reason); what is fine."""
    diagnosis, frame = one.diagnosis, one.frame
    if not first:
        yield Line("")
    yield Line(safe(f"{one.name + ': ' if one.name else ''}{_extent(frame)}"), style="bold" if one.name else "dim")
    for note in frame.notes if first else ():
        yield Line(safe(note), style="dim")
    yield Line("")
    yield Line(safe(answer(diagnosis)), style="bold")
    if lacks(diagnosis.unknown, "truth") and frame.truth:
        yield Line(f"to record truth, {frame.truth}", "  ", "dim")
    for finding in (*diagnosis.at(Level.CRITICAL), *diagnosis.at(Level.WARN)):
        yield from _finding(finding, frame, rows)
    yield from _rules(diagnosis.fired)
    yield from _unknown(diagnosis, all)
    fine = [f.diagnostic for f in diagnosis.at(Level.OK)]
    if fine:
        yield Line("")
        yield Line(f"fine: {', '.join(fine)}", style="green")
    yield Line("")


def safe(text: str) -> str:
    """Control characters, escapes of terminals, marks of direction and lone surrogates as backslash escapes; a new line as \\n."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def bars(series: tuple[tuple[float, float], ...]) -> str:
    """A course as a line of blocks, between its lowest and its highest value; empty for fewer than four points."""
    if len(series) < 4:
        return ""
    pieces = np.array_split(np.array([value for _, value in series]), min(_WIDTH, len(series)))
    means = np.array([piece.mean() for piece in pieces])
    span = float(means.max() - means.min())
    places = (
        np.zeros(len(means), dtype=int)
        if span <= 0
        else ((means - means.min()) / span * (len(_BARS) - 1)).round().astype(int)
    )
    return "".join(_BARS[place] for place in places)


def _extent(frame: Frame) -> str:
    steps = frame.numbers("step")
    steps = steps[np.isfinite(steps)]
    codes, values = frame.words("split")
    splits = [f"{int((codes == i).sum()):,} {value}" for i, value in enumerate(values) if (codes == i).any()]
    parts = [f"{frame.rows:,} rollouts{' (' + ', '.join(splits[:6]) + ')' if len(splits) > 1 else ''}"]
    if len(steps):
        parts.append(f"steps {int(steps.min())} to {int(steps.max())}")
    parts.append(f"{int(frame.groups.max(initial=-1)) + 1:,} groups")
    return f"{frame.source + ': ' if frame.source else ''}{', '.join(parts)}"


def _finding(finding: Finding, frame: Frame, rows: int) -> Iterator[Line]:
    diagnostic = shipped().get(finding.diagnostic)
    title = diagnostic.title if diagnostic else finding.diagnostic
    yield Line("")
    yield Line(f"{finding.level.value.upper()}  {title}  [{finding.diagnostic}]", style=_STYLES[finding.level])
    yield Line(safe(finding.reading.note), "  ")
    series = finding.reading.series
    if drawn := bars(series):
        low, high = min(v for _, v in series), max(v for _, v in series)
        yield Line(f"{drawn}  {low:.3g} to {high:.3g}, steps {series[0][0]:g} to {series[-1][0]:g}", "  ", "cyan")
    if diagnostic:
        yield Line(f"means: {diagnostic.means}", "  ")
        yield Line(f"do: {diagnostic.advice}", "  ")
    yield from _excerpts(frame, finding.reading.rows[:rows])


def _excerpts(frame: Frame, wanted: tuple[int, ...]) -> Iterator[Line]:
    if not wanted or frame.fetch is None:
        return
    try:
        found = frame.excerpt(wanted)
    except CoevoError as e:
        yield Line(safe(f"rollouts {', '.join(map(str, wanted))} cannot be shown: {e}"), "  ", "dim")
        return
    for number, row in zip(wanted, found, strict=False):
        yield Line(safe(f"rollout {number}: {_facts(row)}"), "  ", "dim")
        for name in ("prompt", "response"):
            if row.get(name) is not None:
                yield Line(safe(f"{name}: {_end(row[name])}"), "    ", "dim")


def _facts(row: Mapping[str, Any]) -> str:
    names = ("step", "task", "reward", "truth", "fitness", "stop_reason", "unmeasured_reason")
    return ", ".join(f"{name} {_short(row[name])}" for name in names if row.get(name) not in (None, ""))


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)[:80]


def _end(text: Any) -> str:
    whole = text if isinstance(text, str) else str(text)
    return whole if len(whole) <= EXCERPT else f"...{whole[-EXCERPT:]}"


def _rules(fired: tuple[Fired, ...]) -> Iterator[Line]:
    if not fired:
        return
    yield Line("")
    yield Line("Together:", style="bold")
    for rule in fired:
        yield Line(f"{rule.rule}: {rule.says}", "  ", _STYLES[rule.level])
        families = f"; changes to try: {', '.join(rule.suggests)}" if rule.suggests else ""
        yield Line(f"from {', '.join(rule.cites)}{families}", "    ", "dim")


def _unknown(diagnosis: Diagnosis, all: bool) -> Iterator[Line]:
    """What is missing, and whom it would let speak: the column that would tell most first."""
    if not diagnosis.unknown:
        return
    if not all:
        yield Line("")
        yield Line("What it cannot know (what is missing -> who would speak; --all says each reason):", style="bold")
        for line in folded(diagnosis.unknown):
            yield Line(safe(line), "  ", "dim")
        return
    lacking: dict[str, list[str]] = {}
    for id, reason in diagnosis.unknown.items():
        for piece in reason.split(BETWEEN) if reason.startswith(LACKING) else (reason,):
            lacking.setdefault(piece, []).append(id)
    yield Line("")
    yield Line("What it cannot know:", style="bold")
    for reason, ids in sorted(lacking.items(), key=lambda item: -len(item[1])):
        yield Line(safe(f"{reason} ({', '.join(ids)})"), "  ", "dim")
