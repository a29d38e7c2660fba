"""SEARCH/REPLACE blocks: reading them from a reply, and finding where in a file each one belongs.

    <<<<<<< SEARCH
    lines of the current program
    =======
    lines that take their place
    >>>>>>> REPLACE

Reading is strict about markers. Finding is exact first; then, each only if it singles out one place, it
forgives trailing space, a uniform shift of indentation, and tabs for spaces (or the reverse).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher

from coevo.evolution.replies import file_line
from coevo.evolution.types import Rejection

MAX_HUNKS = 100

_OPEN = re.compile(r"[ \t]*<{7}(?:[ \t]+[^<>=]*)?")
_MIDDLE = re.compile(r"[ \t]*={7}[ \t]*")
_CLOSE = re.compile(r"[ \t]*>{7}(?:[ \t]+[^<>=]*)?")
_NEAR = re.compile(
    r"[ \t]*(?:(?:<{5,}|>{5,})[ \t]*(?:SEARCH|REPLACE|HEAD|ORIGINAL|UPDATED)?[ \t:]*|\|{7}(?:[ \t][^|]*)?)",
    re.IGNORECASE,
)
_GLUED = re.compile(r"\S.*?(?<!>)>{7}[ \t]+REPLACE[ \t]*|\S.*?(?<!<)<{7}[ \t]+SEARCH[ \t]*")


class Refused(Exception):
    """A reply that makes no child: the reason, and a detail that a model can act on."""

    def __init__(self, reason: Rejection, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.detail = detail


@dataclass(frozen=True)
class Hunk:
    """One block: its number from 1, the file it is for (None: the main one), and the lines of its two halves."""

    number: int
    file: str | None
    search: tuple[str, ...]
    replace: tuple[str, ...]


@dataclass(frozen=True)
class Change:
    """Lines `start` to `stop` (from 0, half open) of a file give way to `lines`."""

    start: int
    stop: int
    lines: tuple[str, ...]
    number: int


def read_hunks(text: str) -> tuple[Hunk, ...]:
    """All blocks of a reply in order. Raises `Refused`: MALFORMED, TRUNCATED or TOO_LARGE."""
    hunks: list[Hunk] = []
    search: list[str] | None = None
    other: list[str] | None = None
    file: str | None = None
    for line in text.split("\n"):
        number = len(hunks) + 1
        kind = _kind(line)
        if search is None:
            if kind == "open":
                search = []
            elif kind in ("close", "near"):
                raise Refused(Rejection.MALFORMED, f"`{line.strip()[:60]}` stands outside an edit block. {_SHAPE}")
            elif named := file_line(line):
                file = named
        elif kind == "open":
            raise Refused(Rejection.MALFORMED, f"Edit block {number} opens a second time before it closes. {_SHAPE}")
        elif kind == "near":
            raise Refused(Rejection.MALFORMED, f"`{line.strip()[:60]}` in edit block {number} is no marker. {_SHAPE}")
        elif kind == "middle":
            if other is not None:
                raise Refused(Rejection.MALFORMED, f"Edit block {number} has a second `=======` line. {_SHAPE}")
            other = []
        elif kind == "close":
            if other is None:
                raise Refused(Rejection.MALFORMED, f"Edit block {number} has no `=======` line. {_SHAPE}")
            if number > MAX_HUNKS:
                raise Refused(Rejection.TOO_LARGE, f"More than {MAX_HUNKS} edit blocks. Send fewer, larger ones.")
            hunks.append(Hunk(number, file, tuple(search), tuple(other)))
            search = other = None
        elif kind == "glued":
            raise Refused(
                Rejection.MALFORMED, f"In edit block {number} a marker is glued to `{line.strip()[:60]}`. {_SHAPE}"
            )
        else:
            (search if other is None else other).append(line)
    if search is not None:
        raise Refused(Rejection.TRUNCATED, f"Edit block {len(hunks) + 1} never reaches `>>>>>>> REPLACE`. {_SHAPE}")
    return tuple(hunks)


_SHAPE = (
    "Every marker stands alone on its line, with exactly seven characters: "
    "`<<<<<<< SEARCH`, `=======`, `>>>>>>> REPLACE`."
)


def _kind(line: str) -> str:
    mark = line.lstrip(" \t")[:1]
    if mark == "<" and _OPEN.fullmatch(line):
        return "open"
    if mark == ">" and _CLOSE.fullmatch(line):
        return "close"
    if mark == "=" and _MIDDLE.fullmatch(line):
        return "middle"
    if mark in ("<", ">", "|") and _NEAR.fullmatch(line):
        return "near"
    if (">>>>>>> REPLACE" in line or "<<<<<<< SEARCH" in line) and _GLUED.fullmatch(line.strip()):
        return "glued"
    return "text"


class Target:
    """A file as lines, ready to be searched in several ways."""

    def __init__(self, name: str, text: str, spans: Sequence[tuple[int, int]]) -> None:
        self.name = name
        self.raw = re.findall(r"[^\n]*\n|[^\n]+", text)
        self.lines = tuple(line.rstrip("\r\n") for line in self.raw)
        self.newline = "\r\n" if sum(line.endswith("\r\n") for line in self.raw) * 2 > len(self.raw) else "\n"
        self._free = [_line_span(self.raw, span) for span in spans]
        self._texts: dict[str, str] = {}

    def allows(self, start: int, stop: int) -> bool:
        """Whether lines `start` to `stop` may all change."""
        return any(low <= start and stop <= high for low, high in self._free)

    def empty_place(self) -> int | None:
        """Line number at which text may be put although there is nothing to search for: the only free span is blank."""
        if len(self._free) == 1:
            low, high = self._free[0]
            if not "".join(self.lines[low:high]).strip():
                return low
        return None

    def free_spans(self) -> list[tuple[int, int]]:
        return list(self._free)

    def find(self, lines: Sequence[str], view: str) -> list[int]:
        """Line numbers at which `lines` stand, both seen through `view` (exact, trimmed or bare); at most 65."""
        see = _VIEWS[view]
        text = self._texts.get(view)
        if text is None:
            text = self._texts[view] = "\n" + "".join(see(line) + "\n" for line in self.lines)
        needle = "\n" + "".join(see(line) + "\n" for line in lines)
        found: list[int] = []
        at, line, last = text.find(needle), 0, 0
        while at >= 0 and len(found) < 65:
            line += text.count("\n", last, at)
            last = at
            found.append(line)
            at = text.find(needle, at + 1)
        return found


_VIEWS = {"exact": lambda line: line, "trimmed": str.rstrip, "bare": str.strip}


def _line_span(raw: list[str], span: tuple[int, int]) -> tuple[int, int]:
    """Line numbers of a span of offsets whose ends are line starts (or the end of the text)."""
    low = high = at = 0
    for line in raw:
        if at < span[0]:
            low += 1
        if at < span[1]:
            high += 1
        at += len(line)
    return low, high


def locate(hunk: Hunk, target: Target) -> Change:
    """Where a block goes. Raises `Refused`: NO_MATCH, AMBIGUOUS, OUTSIDE_BLOCK, or MALFORMED for an empty SEARCH."""
    if not any(line.strip() for line in hunk.search):
        return _into_empty(hunk, target)
    for matches in _readings(hunk, target):
        changes = [_trimmed(reading, start, target) for start, reading in matches]
        inside = [change for change in changes if target.allows(change.start, change.stop)]
        if len(inside) > 1:
            places = ", ".join(str(start + 1) for start, _ in matches[:4])
            raise Refused(
                Rejection.AMBIGUOUS,
                f"SEARCH of edit block {hunk.number} matches several places in {target.name} (lines {places}). "
                "Add neighbouring lines until it matches one.",
            )
        if inside:
            return inside[0]
        if changes:
            raise Refused(
                Rejection.OUTSIDE_BLOCK,
                f"Edit block {hunk.number} changes line {changes[0].start + 1} of {target.name}, which is outside "
                "the EVOLVE-BLOCK. Only lines between its two markers may change.",
            )
    raise Refused(Rejection.NO_MATCH, _no_match(hunk, target))


def _readings(hunk: Hunk, target: Target) -> Iterator[list[tuple[int, Hunk]]]:
    """Ways to understand a block, strictest first: for each, the lines at which it matches, with what it then says."""
    core = _without_blank_edges(hunk)
    for view in ("exact", "trimmed"):
        for variant in (hunk,) if core == hunk else (hunk, core):
            yield [(start, variant) for start in target.find(variant.search, view)]
    starts = target.find(core.search, "bare")
    for variant in _retabbed(core, target):
        moved = [(start, _reindent(variant, target.lines[start : start + len(core.search)])) for start in starts]
        yield [(start, reading) for start, reading in moved if reading is not None]


def _retabbed(hunk: Hunk, target: Target) -> list[Hunk]:
    """The block as written, then with its leading tabs as the file's spaces or its spaces as tabs."""
    indents = [_indent(line) for line in target.lines if line.strip()]
    spaced = min((len(i) for i in indents if i and "\t" not in i), default=0)
    tabbed = any("\t" in indent for indent in indents)
    if tabbed and spaced:
        return [hunk]
    has_tabs = any("\t" in _indent(line) for line in (*hunk.search, *hunk.replace))
    if has_tabs and not tabbed:
        return [hunk, _mapped(hunk, lambda indent: indent.replace("\t", " " * (spaced or 4)))]
    if tabbed and not has_tabs:
        widths = [len(_indent(line)) for line in hunk.search if line.strip() and _indent(line)]
        unit = min(widths, default=4)
        return [hunk, _mapped(hunk, lambda indent: "\t" * (len(indent) // unit) + " " * (len(indent) % unit))]
    return [hunk]


def _mapped(hunk: Hunk, change: Callable[[str], str]) -> Hunk:
    def each(lines: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(change(_indent(line)) + line[len(_indent(line)) :] for line in lines)

    return replace(hunk, search=each(hunk.search), replace=each(hunk.replace))


def _reindent(hunk: Hunk, place: Sequence[str]) -> Hunk | None:
    """The block moved by the one shift that turns its SEARCH into `place`; None if there is no such shift."""
    pairs = [(_indent(a), _indent(b)) for a, b in zip(hunk.search, place, strict=True) if a.strip()]
    mine, theirs = pairs[0]
    if theirs.endswith(mine):
        drop, add = "", theirs[: len(theirs) - len(mine)]
    elif mine.endswith(theirs):
        drop, add = mine[: len(mine) - len(theirs)], ""
    else:
        return None
    moved: list[str] = []
    if any(not a.startswith(drop) or add + a[len(drop) :] != b for a, b in pairs):
        return None
    for line in hunk.replace:
        if not line.strip():
            moved.append("")
        elif not line.startswith(drop):
            return None
        else:
            moved.append(add + line[len(drop) :])
    return replace(hunk, search=tuple(place), replace=tuple(moved))


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t"))]


def _without_blank_edges(hunk: Hunk) -> Hunk:
    """The block without blank lines around SEARCH, and without as many around REPLACE."""
    low, high = _blank_edges(hunk.search)
    before, after = _blank_edges(hunk.replace)
    before = min(before, low)
    after = max(after, len(hunk.replace) - (len(hunk.search) - high))
    return replace(hunk, search=hunk.search[low:high], replace=hunk.replace[before:after])


def _blank_edges(lines: Sequence[str]) -> tuple[int, int]:
    """Where the text without blank lines at its ends begins and stops."""
    ink = [i for i, line in enumerate(lines) if line.strip()]
    return (ink[0], ink[-1] + 1) if ink else (0, len(lines))


def _trimmed(hunk: Hunk, start: int, target: Target) -> Change:
    """The change itself, without the lines that SEARCH and REPLACE share at both ends."""
    place = target.lines[start : start + len(hunk.search)]
    other = list(hunk.replace)
    low = 0
    while low < min(len(place), len(other)) and place[low].rstrip() == other[low].rstrip():
        low += 1
    high = 0
    while (
        high < min(len(place), len(other)) - low
        and place[len(place) - 1 - high].rstrip() == other[len(other) - 1 - high].rstrip()
    ):
        high += 1
    return Change(start + low, start + len(place) - high, tuple(other[low : len(other) - high]), hunk.number)


def _into_empty(hunk: Hunk, target: Target) -> Change:
    place = target.empty_place()
    if place is None:
        raise Refused(
            Rejection.MALFORMED,
            f"SEARCH of edit block {hunk.number} is empty. To insert, SEARCH for a line next to the place and repeat "
            "it in REPLACE together with the new lines.",
        )
    return Change(place, place, hunk.replace, hunk.number)


def _no_match(hunk: Hunk, target: Target) -> str:
    """What to say when SEARCH is nowhere: its first line that the file does not have, and the nearest that it has."""
    known = {line.strip() for line in target.lines}
    words = [line.strip() for line in hunk.search if line.strip()]
    wanted = next((line for line in words if line not in known), words[0])[:200]
    said = f"SEARCH of edit block {hunk.number} is not in {target.name}: `{wanted[:120]}`."
    if starts := target.find(_without_blank_edges(hunk).search, "bare"):
        return f"{said} The same words stand at line {starts[0] + 1}, but indented otherwise. Copy the indentation exactly."
    best = _nearest(wanted, target)
    if best is not None:
        said += f" The nearest is line {best + 1}: `{target.lines[best].strip()[:120]}`."
    return said + " Copy the lines of the current program exactly; all blocks are matched before any is applied."


def _nearest(wanted: str, target: Target) -> int | None:
    """The line that may change and is most like `wanted`, if any is alike; looks at no more than 2,000 lines."""
    best, score = None, 0.5
    matcher = SequenceMatcher(autojunk=False)
    matcher.set_seq2(wanted)
    for low, high in target.free_spans():
        for number in range(low, min(high, low + 2000)):
            matcher.set_seq1(target.lines[number].strip()[:200])
            if matcher.real_quick_ratio() > score and matcher.quick_ratio() > score and matcher.ratio() > score:
                best, score = number, matcher.ratio()
    return best
