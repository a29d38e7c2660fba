"""Cheap descriptors of a program, for MAP-Elites cells and novelty. Deterministic across processes and machines."""

from __future__ import annotations

import ast
import hashlib
import re
from collections import Counter
from dataclasses import dataclass
from zlib import crc32

from coevo.evolution.syntax import parse
from coevo.programs import Program, normal_form

SKETCH = 32
"""Numbers in a sketch: the distance of two long programs has a standard error of at most 0.09."""

_SHINGLE = 3
_TOKEN = re.compile(r"[A-Za-z_]\w*|\d[\w.]*|\"[^\"\n]*\"|'[^'\n]*'|\n[ ]*|[^\s\w]")
_LOOPS = ("For", "AsyncFor", "While", "comprehension")
_BRANCHES = ("If", "IfExp", "BoolOp", "Try", "TryStar", "Match")
_DEFS = ("FunctionDef", "AsyncFunctionDef", "Lambda", "ClassDef")


@dataclass(frozen=True, slots=True)
class Features:
    """Counts over all files. A file that is not Python counts by its length alone."""

    size: int
    """Characters in normal form: comments and layout do not count."""
    nodes: int
    loops: int
    """Loops, and the `for` parts of comprehensions."""
    branches: int
    calls: int
    functions: int
    constants: int
    structure: str
    """16 hex digits: a hash of the syntax tree without names and constants."""
    sketch: tuple[int, ...]
    """The `SKETCH` smallest hashes of three-token shingles, in order (bottom-k sketch)."""

    @property
    def descriptors(self) -> tuple[float, float]:
        """Two axes for cells: size, and how much control flow there is."""
        return float(self.size), float(self.loops + self.branches + self.functions)


def features(program: Program) -> Features:
    """The descriptors of a program."""
    count: Counter[str] = Counter()
    digest = hashlib.sha256()
    hashes: set[int] = set()
    size = 0
    for name, text in program.files:
        normal = normal_form(text)
        size += len(normal)
        hashes.update(_shingles(normal))
        tree = parse(text)
        digest.update(name.encode() + b"\0")
        if tree is None:
            digest.update(normal.encode("utf-8", "surrogatepass"))
        else:
            digest.update(_count(tree, count).encode())
    return Features(
        size,
        count.total(),
        sum(count[name] for name in _LOOPS),
        sum(count[name] for name in _BRANCHES),
        count["Call"],
        sum(count[name] for name in _DEFS),
        count["Constant"],
        digest.hexdigest()[:16],
        tuple(sorted(hashes)[:SKETCH]),
    )


def distance(a: tuple[int, ...], b: tuple[int, ...]) -> float:
    """How different two programs are, by their sketches: from 0 (the same shingles) to 1 (none in common).

    1 minus the Jaccard similarity of their sets of shingles; exact for programs of up to `SKETCH` different ones, else the
    bottom-k estimate (Cohen and Kaplan 2007): the share of the k smallest of the union that are in both.
    """
    if not a and not b:
        return 0.0
    first, second = set(a), set(b)
    union = sorted(first | second)
    if len(a) >= SKETCH or len(b) >= SKETCH:
        union = union[:SKETCH]
    return 1.0 - len((first & second).intersection(union)) / len(union)


def _shingles(normal: str) -> set[int]:
    tokens = _TOKEN.findall(normal)
    if not tokens:
        return set()
    raw = [b""] * (_SHINGLE - 1) + "\0".join(tokens).encode("utf-8", "surrogatepass").split(b"\0")
    return set(map(crc32, map(b"\0".join, set(zip(*(raw[i:] for i in range(_SHINGLE)), strict=False)))))


def _count(tree: ast.Module, count: Counter[str]) -> str:
    """Add the types of a tree's nodes to the counts; returns its shape as text: types and numbers of children, from the root."""
    names: list[str] = []
    children: list[int] = []
    stack: list[ast.AST] = [tree]
    while stack:
        node = stack.pop()
        kind = type(node)
        names.append(kind.__name__)
        held = len(stack)
        if kind is not ast.Name and kind is not ast.Constant:
            for field in kind._fields:
                value = getattr(node, field, None)
                if type(value) is list:
                    stack.extend([item for item in value if isinstance(item, ast.AST)])
                elif field != "ctx" and isinstance(value, ast.AST):
                    stack.append(value)
        children.append(len(stack) - held)
    count.update(names)
    return f"{' '.join(names)} {children}"
