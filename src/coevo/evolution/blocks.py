"""EVOLVE-BLOCK markers: comment lines in a program that bound what may change.

    # EVOLVE-BLOCK-START
    ...                         only this may change
    # EVOLVE-BLOCK-END

A file may hold several blocks. A program without any marker may change everywhere; in a program of
several files, one marker anywhere freezes the files that have none.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from coevo.programs import Program

START = "EVOLVE-BLOCK-START"
END = "EVOLVE-BLOCK-END"

_MARKER = re.compile(r"^[ \t]*#[ \t]*(EVOLVE-BLOCK-START|EVOLVE-BLOCK-END)\b[^\n]*(?:\n|\Z)", re.MULTILINE)


class MarkerError(ValueError):
    """The markers of a text do not pair up. The message names the line."""


@dataclass(frozen=True)
class Block:
    """One block: `start` and `end` bound its content, `outer_start` and `outer_end` its marker lines, too."""

    start: int
    end: int
    outer_start: int
    outer_end: int


def find_blocks(source: str) -> tuple[Block, ...]:
    """The blocks of a text in order, or a `MarkerError` when a marker has no partner."""
    blocks: list[Block] = []
    opened: re.Match[str] | None = None
    for match in _MARKER.finditer(source):
        if match.group(1) == START:
            if opened is not None:
                raise MarkerError(f"{_line(source, match)} opens an EVOLVE-BLOCK inside another one")
            opened = match
        elif opened is None:
            raise MarkerError(f"{_line(source, match)} has {END} without {START}")
        else:
            blocks.append(Block(opened.end(), match.start(), opened.start(), match.end()))
            opened = None
    if opened is not None:
        raise MarkerError(f"{_line(source, opened)} has {START} without {END}")
    return tuple(blocks)


def _line(source: str, match: re.Match[str]) -> str:
    return f"line {source.count(chr(10), 0, match.start()) + 1}"


def without_markers(source: str) -> str:
    """The text without its marker lines."""
    return _MARKER.sub("", source)


def editable(program: Program) -> dict[str, tuple[tuple[int, int], ...]]:
    """For each file, the spans (offsets into its text) that may change; no span means the file is frozen.

    Raises `MarkerError` when the program's own markers do not pair up.
    """
    found = {name: find_blocks(text) for name, text in program.files}
    if any(found.values()):
        return {name: tuple((block.start, block.end) for block in blocks) for name, blocks in found.items()}
    return {name: ((0, len(text)),) for name, text in program.files}
