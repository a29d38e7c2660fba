"""A source file as editable segments: its syntax tree, and the exact text of every node that may change.

Operators change text between offsets and leave every other byte alone, so that comments, layout and everything
outside the EVOLVE-BLOCK survive. Left out, because a change there breaks a program more often than it changes what it does:
annotations, decorators, match patterns, and what stands inside f-strings (where Python 3.11 does not
give true positions).
"""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, TypeVar

from coevo.evolution import blocks
from coevo.evolution.syntax import MEMO_CHARS, parse
from coevo.programs import Program

T = TypeVar("T")
Span = tuple[int, int]
Patch = tuple[int, int, str]
"""Bytes from, bytes to, and the text that takes their place."""

_SCOPES = frozenset(
    (
        *(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda),
        *(ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp),
    )
)
_CLOSED = frozenset(
    (ast.Name, ast.Constant, ast.JoinedStr, getattr(ast, "TemplateStr", ast.JoinedStr), *ast.pattern.__subclasses__())
)
"""Nodes that are not looked into."""
_SKIPPED = frozenset({"annotation", "returns", "decorator_list", "ctx", "op", "ops", "type_params", "type_comment"})
_FIELDS = {
    kind: tuple(field for field in reversed(kind._fields) if field not in _SKIPPED)
    for kind in vars(ast).values()
    if isinstance(kind, type) and issubclass(kind, ast.AST)
}
"""Where the parts of a node are looked for, last first."""
_LINE_END = re.compile(rb"\r\n?|\n")
_WORD = re.compile(r"\w")


@dataclass(slots=True, eq=False)
class Place:
    """A node, where it hangs, and the number of the function, class, lambda or comprehension it is in."""

    node: ast.AST
    parent: Place | None
    field: str
    index: int
    scope: int


class Source:
    """One file of a program, parsed. Shared by all who ask for the same text: look at it, do not change it."""

    def __init__(self, name: str, text: str, tree: ast.Module, free: Sequence[tuple[int, int]]) -> None:
        self.name, self.text, self.tree = name, text, tree
        self.data = text.encode()
        self._derived: dict[Callable[[Source], Any], Any] = {}
        self._ascii = len(self.data) == len(text)
        self.free: list[Span] = [(self._byte(a), self._byte(b)) for a, b in free]
        self._starts = [0, *(match.end() for match in _LINE_END.finditer(self.data))]

    def _byte(self, at: int) -> int:
        return at if self._ascii else len(self.text[:at].encode())

    def span(self, node: ast.AST) -> Span:
        """Offsets of a node's own text, in bytes. Decorators are not part of it."""
        n: ast.expr = node  # type: ignore[assignment]
        return self._starts[n.lineno - 1] + n.col_offset, self._starts[n.end_lineno - 1] + n.end_col_offset  # type: ignore[operator]

    def read(self, span: Span) -> str:
        return self.data[span[0] : span[1]].decode()

    def of(self, node: ast.AST) -> str:
        """The text of a node."""
        return self.read(self.span(node))

    def is_free(self, span: Span) -> bool:
        return any(low <= span[0] and span[1] <= high for low, high in self.free)

    def lines(self, node: ast.stmt) -> Span | None:
        """The whole lines of a statement, decorators included; None if it shares a line with another."""
        decorators = getattr(node, "decorator_list", [])
        first = min([node.lineno, *(d.lineno for d in decorators)])
        start, low = self._starts[first - 1], self.span(node)[0]
        if not decorators and self.data[start:low].strip():
            return None
        last = node.end_lineno or first
        stop = self._starts[last] if last < len(self._starts) else len(self.data)
        rest = self.data[self.span(node)[1] : stop].strip()
        return (start, stop) if not rest or rest.startswith(b"#") else None

    @cached_property
    def places(self) -> list[Place]:
        """Every node that lies in a free part and is not left out, in source order by parents."""
        found: list[Place] = []
        scopes = 0
        stack = [Place(self.tree, None, "", 0, 0)]
        whole = self.is_free((0, len(self.data)))
        while stack:
            place = stack.pop()
            node, scope = place.node, place.scope
            if isinstance(node, (ast.expr, ast.stmt)) and (whole or self.is_free(self.span(node))):
                found.append(place)
            kind = type(node)
            if kind in _CLOSED:
                continue
            if kind in _SCOPES:
                scopes += 1
                scope = scopes
            for field in _FIELDS[kind]:
                value = getattr(node, field, None)
                if type(value) is list:
                    for i in range(len(value) - 1, -1, -1):
                        if isinstance(value[i], ast.AST):
                            stack.append(Place(value[i], place, field, i, scope))
                elif isinstance(value, ast.AST):
                    stack.append(Place(value, place, field, 0, scope))
        return found

    def derived(self, find: Callable[[Source], T]) -> T:
        """What a function finds in this file, looked for once."""
        if find not in self._derived:
            self._derived[find] = find(self)
        return self._derived[find]

    def patched(self, patches: Sequence[Patch]) -> str:
        """The text with non-overlapping patches applied. Words that would run together are kept apart."""
        out: list[bytes] = []
        at = 0
        for start, stop, text in sorted(patches):
            if _WORD.match(text[:1]) and start and _WORD.match(chr(self.data[start - 1])):
                text = " " + text
            if _WORD.match(text[-1:]) and stop < len(self.data) and _WORD.match(chr(self.data[stop])):
                text += " "
            out += [self.data[at:start], text.encode()]
            at = stop
        return b"".join([*out, self.data[at:]]).decode()


def sources(program: Program) -> list[Source]:
    """The Python files of a program that may change somewhere, by name; none if it does not parse."""
    try:
        spans = blocks.editable(program)
    except blocks.MarkerError:
        return []
    found: list[Source] = []
    for name, text in program.files:
        if name.endswith(".py") and spans[name]:
            source = (_remembered if len(text) <= MEMO_CHARS else _source)(name, text, spans[name])
            if source is not None:
                found.append(source)
    return found


def _source(name: str, text: str, free: tuple[tuple[int, int], ...]) -> Source | None:
    tree = parse(text)
    return None if tree is None else Source(name, text.removeprefix("\ufeff"), tree, free)


_remembered = lru_cache(maxsize=24)(_source)
"""A worker meets the same parents again and again, and every child once more when its constants are read."""


def pick(found: list[Source], rng: random.Random) -> Source:
    """One file, the more likely the more of it may change."""
    return rng.choices(found, [1 + sum(high - low for low, high in source.free) for source in found])[0]
