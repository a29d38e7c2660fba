"""How different programs are when the names of their variables do not count: a cheap distance for groups of samples."""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Sequence
from zlib import crc32

from coevo.programs import normal_form

SKETCH = 256
"""Shingles kept of a program, the smallest hashes: exact for programs of up to so many different ones, else a bottom-k estimate."""

_SHINGLE = 3
_TOKEN = re.compile(r"\.?[A-Za-z_]\w*|\d[\w.]*|\"[^\"\n]*\"|'[^'\n]*'|\n[ ]*|[^\s\w]")
_MEANT = frozenset(keyword.kwlist) | frozenset(keyword.softkwlist) | frozenset(dir(builtins))


def sketch(source: str) -> frozenset[int]:
    """Hashes of the three-token shingles of a program's normal form, names replaced by one placeholder.

    Keywords, builtins and attributes keep their names, so `sorted(x)` and `max(x)` differ while `total` and `result` do not.
    Comments and layout do not count. Empty for a program without tokens.
    """
    tokens = [_plain(token) for token in _TOKEN.findall(normal_form(source))]
    if not tokens:
        return frozenset()
    padded = ["", "", *tokens]
    shingles = {
        crc32("\0".join(three).encode("utf-8", "surrogatepass"))
        for three in zip(*(padded[i:] for i in range(_SHINGLE)), strict=False)
    }
    return frozenset(sorted(shingles)[:SKETCH])


def distance(a: frozenset[int], b: frozenset[int]) -> float:
    """1 minus the Jaccard similarity of two sketches, in [0, 1] (bottom-k estimate: Cohen and Kaplan 2007). Two empty ones are equal."""
    union = sorted(a | b)
    if not union:
        return 0.0
    if len(a) >= SKETCH or len(b) >= SKETCH:
        union = union[:SKETCH]
    return 1.0 - len((a & b).intersection(union)) / len(union)


def mean_distances(sources: Sequence[str], wanted: Sequence[int]) -> dict[int, float]:
    """For each index in `wanted`: the mean distance of its source to all other sources that are not empty; 0 without others."""
    sketches = {index: sketch(source) for index, source in enumerate(sources) if source}
    found = {}
    for index in wanted:
        others = [other for at, other in sketches.items() if at != index]
        near = [distance(sketches[index], other) for other in others] if index in sketches else []
        found[index] = sum(near) / len(near) if near else 0.0
    return found


def _plain(token: str) -> str:
    if token[0] == "." or not (token[0].isalpha() or token[0] == "_") or token in _MEANT:
        return token
    return "_"
