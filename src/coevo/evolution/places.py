"""Which places of a program an operator may work on, and how a new text is seated there."""

from __future__ import annotations

import ast
import random
from collections.abc import Callable, Sequence

from coevo.evolution.segments import Patch, Place, Source


def draw(places: Sequence[Place], rng: random.Random, wanted: Callable[[Place], bool], tries: int = 24) -> Place | None:
    """A random place that is wanted: by rejection first, then from the list of all."""
    if not places:
        return None
    for _ in range(tries):
        place = places[rng.randrange(len(places))]
        if wanted(place):
            return place
    everything = [place for place in places if wanted(place)]
    return rng.choice(everything) if everything else None


def of_type(*types: type[ast.AST]) -> Callable[[Place], bool]:
    return lambda place: isinstance(place.node, types)


# Which expressions may be moved, wrapped or replaced

VALUES = (
    *(ast.Name, ast.Constant, ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.Call, ast.Attribute, ast.Subscript),
    *(ast.IfExp, ast.List, ast.Tuple, ast.Dict, ast.Set, ast.ListComp),
)
_ATOMS = (ast.Name, ast.Constant, ast.Call, ast.Attribute, ast.Subscript, ast.List, ast.Dict, ast.Set, ast.ListComp)


def is_value(place: Place) -> bool:
    """Whether a place is an expression whose value is used: no target, no called function, no keyword, no docstring."""
    node, above = place.node, place.parent
    if not isinstance(node, VALUES) or above is None or not isinstance(getattr(node, "ctx", ast.Load()), ast.Load):
        return False
    if isinstance(above.node, (ast.Call, ast.Attribute)) and place.field in ("func", "value"):
        return False
    return not isinstance(
        above.node, (ast.Expr, ast.ImportFrom, ast.Slice, ast.Starred, ast.Delete, ast.FormattedValue)
    )


def is_number(place: Place) -> bool:
    """Whether a place is a value that could well be a number."""
    if not is_value(place) or not isinstance(place.node, (ast.Name, ast.Constant, ast.BinOp, ast.Call, ast.Subscript)):
        return False
    return not isinstance(place.node, ast.Constant) or type(place.node.value) in (int, float)


def enclosed(node: ast.AST, text: str) -> str:
    """The text of an expression, in parentheses unless it can stand anywhere without."""
    return text if isinstance(node, _ATOMS) else f"({text})"


def stands_alone(source: Source, place: Place) -> bool:
    """Whether an expression at a place needs no parentheses of its own: it has some, or is all of a statement's value."""
    low, high = source.span(place.node)
    wrapped = source.data[low - 1 : low] == b"(" and source.data[high : high + 1] == b")"
    return wrapped or (
        place.parent is not None and isinstance(place.parent.node, (ast.Assign, ast.AugAssign, ast.Return))
    )


def seated(source: Source, place: Place, node: ast.AST, text: str) -> list[Patch]:
    """Put the text of an expression at a place, in parentheses only where they are needed; nothing for the same text."""
    low, high = source.span(place.node)
    if text == source.read((low, high)):
        return []
    bare = stands_alone(source, place) and not isinstance(node, ast.Tuple) and "\n" not in text
    return [(low, high, text if bare else enclosed(node, text))]


# Statements

_FIXED = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Global, ast.Nonlocal)


def is_step(place: Place) -> bool:
    """Whether a place is a statement that does something: no definition, import or docstring."""
    node = place.node
    if not isinstance(node, ast.stmt) or isinstance(node, (*_FIXED, ast.Pass)):
        return False
    return not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))


def body_of(place: Place) -> list[ast.stmt]:
    """The statements among which a statement stands."""
    return getattr(place.parent.node, place.field) if place.parent else []


def indent_of(source: Source, node: ast.stmt) -> str:
    return " " * node.col_offset if b"\t" not in source.data else _tabs(source, node)


def _tabs(source: Source, node: ast.stmt) -> str:
    start = source.span(node)[0]
    return source.data[start - node.col_offset : start].decode()
