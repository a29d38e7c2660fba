"""Fitting fenced code into a file: is it the whole file or only the content of its EVOLVE-BLOCK?"""

from __future__ import annotations

from coevo.evolution import blocks
from coevo.evolution.hunks import Refused
from coevo.evolution.syntax import fault, lines_in_strings, parse, top_level_names
from coevo.evolution.types import Rejection


def fitted(source: str, code: str, name: str, *, frozen: bool = False) -> str:
    """`source` with its editable part replaced by what `code` says. Raises `Refused`.

    Code with markers is the whole file, or a block with its markers; what it has outside them must be the file's own.
    Code without markers is the whole file when it begins and ends as the file does outside the block, else
    the content of the block.
    """
    newline = "\r\n" if source.count("\r\n") * 2 > source.count("\n") else "\n"
    own = blocks.find_blocks(source)
    theirs = _markers(code)
    if not own:
        if frozen:
            raise Refused(Rejection.OUTSIDE_BLOCK, f"{name} has no EVOLVE-BLOCK and must stay as it is.")
        plain = blocks.without_markers(code)
        if "\n<<<<<<<" in "\n" + plain:
            raise Refused(Rejection.MALFORMED, "The fence holds SEARCH/REPLACE blocks. Give the whole program instead.")
        if not _ink(plain):
            raise Refused(Rejection.EMPTY, f"The code for {name} is empty.")
        return _lines(plain, newline)
    if theirs:
        contents = _from_marked(source, own, code, theirs, name)
    else:
        if len(own) > 1:
            raise Refused(
                Rejection.MALFORMED, f"{name} has {len(own)} EVOLVE-BLOCKs. Give the whole file with all its markers."
            )
        contents = [_from_plain(source, block, code, name) for block in own]
    out: list[str] = []
    at = 0
    for block, content in zip(own, contents, strict=True):
        if not _ink(content):
            raise Refused(Rejection.EMPTY, f"The code for the EVOLVE-BLOCK of {name} is empty.")
        out += [source[at : block.start], _lines(content, newline)]
        at = block.end
    return "".join([*out, source[at:]])


def _lines(text: str, newline: str) -> str:
    """Without blank lines around it, with one line end after it, in the file's own line ends."""
    lines = text.rstrip().split("\n")
    first = next((i for i, line in enumerate(lines) if line.strip()), 0)
    return newline.join(lines[first:]) + newline


def _markers(code: str) -> tuple[blocks.Block, ...]:
    try:
        return blocks.find_blocks(code)
    except blocks.MarkerError as e:
        raise Refused(Rejection.MALFORMED, f"In the reply's code, {e}. Keep both markers or leave both out.") from None


def _from_marked(
    source: str, own: tuple[blocks.Block, ...], code: str, theirs: tuple[blocks.Block, ...], name: str
) -> list[str]:
    if len(theirs) != len(own):
        raise Refused(Rejection.MALFORMED, f"{name} has {len(own)} EVOLVE-BLOCKs, the reply {len(theirs)}.")
    mine, other = _outside(source, own), _outside(code, theirs)
    for old, new in zip(mine, other, strict=True):
        if new.strip() and _ink(new) != _ink(old):
            raise Refused(
                Rejection.OUTSIDE_BLOCK,
                f"The reply changes {name} outside the EVOLVE-BLOCK (`{_first_difference(old, new)}`). "
                "Change only what is between the markers; put new imports there, too.",
            )
    return [code[block.start : block.end] for block in theirs]


def _outside(text: str, found: tuple[blocks.Block, ...]) -> list[str]:
    edges = [0, *(edge for block in found for edge in (block.outer_start, block.outer_end)), len(text)]
    return [text[a:b] for a, b in zip(edges[::2], edges[1::2], strict=True)]


def _ink(text: str) -> list[str]:
    """The lines that count: without blank ones, comments on lines of their own, and trailing space."""
    return [line.rstrip() for line in text.split("\n") if line.strip() and not line.lstrip().startswith("#")]


def _first_difference(old: str, new: str) -> str:
    known = set(_ink(old))
    line = next((line for line in _ink(new) if line not in known), "a line is missing or moved")
    return line.strip()[:100]


def _from_plain(source: str, block: blocks.Block, code: str, name: str) -> str:
    before, after = source[: block.outer_start], source[block.outer_end :]
    inner = _stripped(code, _ink(before), _ink(after))
    if inner is None:
        clash = top_level_names(parse(code)) & top_level_names(parse(before + "\n" + after))
        if clash:
            raise Refused(
                Rejection.OUTSIDE_BLOCK,
                f"The reply defines {', '.join(sorted(clash))[:200]} of {name} anew, which is outside the EVOLVE-BLOCK. "
                "Give only the block's content, or the whole file with both markers.",
            )
        inner = code
    return _seated(source, block, inner)


def _stripped(code: str, before: list[str], after: list[str]) -> str | None:
    """`code` without the file's own beginning and end; None when it does not have both."""
    if not before and not after:
        return code
    lines = code.split("\n")
    counted = [i for i, line in enumerate(lines) if line.strip() and not line.lstrip().startswith("#")]
    if len(counted) < len(before) + len(after):
        return None
    head, tail = counted[: len(before)], counted[len(counted) - len(after) :]
    if [lines[i].rstrip() for i in head] != before or [lines[i].rstrip() for i in tail] != after:
        return None
    low = head[-1] + 1 if head else 0
    high = tail[0] if tail else len(lines)
    return "\n".join(lines[low:high])


def _seated(source: str, block: blocks.Block, content: str) -> str:
    """The content, moved to the block's own indentation if it only compiles there so."""
    if fault(source[: block.start] + _lines(content, "\n") + source[block.end :]) is None:
        return content
    own = _margin(source[block.start : block.end])
    theirs = _margin(content)
    if own == theirs:
        return content
    inside = lines_in_strings(content)
    lines = content.split("\n")
    moved = [
        line if i in inside or not line.strip() else own + line.removeprefix(theirs) for i, line in enumerate(lines)
    ]
    shifted = "\n".join(moved)
    if fault(source[: block.start] + _lines(shifted, "\n") + source[block.end :]) is None:
        return shifted
    return content


def _margin(text: str) -> str:
    """The indentation of the first line that counts."""
    ink = _ink(text)
    return ink[0][: len(ink[0]) - len(ink[0].lstrip(" \t"))] if ink else ""
