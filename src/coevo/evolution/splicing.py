"""Crossover without a model: a function, a statement, an expression or the constants of one program go into another.

A part fits when every name it reads from outside itself is known in the receiving file, so that most
children run.
"""

from __future__ import annotations

import ast
import builtins
import random
from collections.abc import Callable
from typing import NamedTuple

from coevo.evolution.bindings import more_unbound
from coevo.evolution.constants import constants, with_constants
from coevo.evolution.edits import finished
from coevo.evolution.places import body_of, draw, indent_of, is_step, is_value, seated
from coevo.evolution.segments import Patch, Source, pick, sources
from coevo.evolution.syntax import lines_in_strings
from coevo.evolution.types import Edit, Proposal, Rejection
from coevo.programs import Program

TRIES = 32

_BUILTINS = frozenset(dir(builtins))
_DEFS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def splice(a: Program, b: Program, rng: random.Random) -> Proposal:
    """A child of `a` with a part of `b` in it. `extra` holds the kind of part."""
    mine, theirs = sources(a), {source.name: source for source in sources(b)}
    shared = [source for source in mine if source.name in theirs]
    if not shared:
        return Proposal(
            Edit.SPLICE, None, Rejection.NOTHING_TO_CHANGE, "The two programs share no file that may change."
        )
    files = dict(a.files)
    last: Proposal | None = None
    for _ in range(TRIES):
        kind = rng.choices(_KINDS, [k.weight for k in _KINDS])[0]
        if kind.change is None:
            child = _blend(a, b, rng)
        else:
            source = pick(shared, rng)
            patches = kind.change(source, theirs[source.name], rng)
            text = source.patched(patches) if patches else source.text
            if text == source.text or more_unbound(source.text, text):
                continue
            child = finished(a, {**files, source.name: text}, Edit.SPLICE)
        if child is None:
            continue
        last = child
        if child.program is not None and child.program.id != b.id:
            return Proposal(Edit.SPLICE, child.program, extra={"kind": kind.name})
    if last is not None and last.program is None:
        return last
    return Proposal(
        Edit.SPLICE, None, Rejection.NOTHING_TO_CHANGE, "No part of the second program fits into the first."
    )


def _blend(a: Program, b: Program, rng: random.Random) -> Proposal | None:
    """Constants of two programs with one skeleton: each from one parent, or from the line through both."""
    mine, theirs = constants(a), constants(b)
    if mine.skeleton != theirs.skeleton or mine.vector == theirs.vector:
        return None
    if rng.random() < 0.5:
        vector = [rng.choice(pair) for pair in zip(mine.vector, theirs.vector, strict=True)]
    else:
        share = rng.uniform(-0.5, 1.5)
        vector = [x + share * (y - x) for x, y in zip(mine.vector, theirs.vector, strict=True)]
    child = with_constants(a, vector)
    return Proposal(Edit.SPLICE, child.program, child.rejection, child.detail)


def _function(source: Source, other: Source, rng: random.Random) -> list[Patch]:
    """A function or class gives way to the one of the same name."""
    known = {p.node.name: p.node for p in other.places if isinstance(p.node, _DEFS)}

    def differs(node: ast.AST) -> bool:
        return isinstance(node, _DEFS) and node.name in known and source.of(node) != other.of(known[node.name])

    place = draw(source.places, rng, lambda p: differs(p.node))
    if place is None:
        return []
    node: ast.stmt = place.node  # type: ignore[assignment]
    return _transplant(source, node, other, known[node.name])  # type: ignore[attr-defined]


def _statement(source: Source, other: Source, rng: random.Random) -> list[Patch]:
    """A statement is replaced by one of the other program, or gets it as its neighbour."""
    known, mine = source.derived(_names), source.derived(_steps)

    def fits(node: ast.AST) -> bool:
        return other.of(node) not in mine and _foreign(node) <= known

    donor = draw(other.places, rng, lambda p: is_step(p) and fits(p.node), tries=8)
    same = None if donor is None else isinstance(donor.node, ast.Return)
    place = draw(source.places, rng, lambda p: is_step(p) and isinstance(p.node, ast.Return) == same)
    if donor is None or place is None:
        return []
    node: ast.stmt = place.node  # type: ignore[assignment]
    patches = _transplant(source, node, other, donor.node)  # type: ignore[arg-type]
    if patches and not same and rng.random() < 0.5:
        start, _, text = patches[0]
        return [(start, start, text)]
    return patches if len(body_of(place)) else []


def _expression(source: Source, other: Source, rng: random.Random) -> list[Patch]:
    """An expression gives way to one of the other program."""
    known, mine = source.derived(_names), source.derived(_values)

    def fits(node: ast.AST) -> bool:
        text = other.of(node)
        return text not in mine and "\n" not in text and len(text) <= 400 and _foreign(node) <= known

    donor = draw(other.places, rng, lambda p: is_value(p) and fits(p.node), tries=8)
    place = draw(source.places, rng, is_value)
    if donor is None or place is None:
        return []
    return seated(source, place, donor.node, other.of(donor.node))


def _transplant(source: Source, node: ast.stmt, other: Source, donor: ast.stmt) -> list[Patch]:
    """Whole lines of a statement give way to those of another, moved to the same indentation."""
    lines, theirs = source.lines(node), other.lines(donor)
    if lines is None or theirs is None or not source.is_free(lines):
        return []
    old, new = indent_of(other, donor), indent_of(source, node)
    text = other.read(theirs).replace("\r\n", "\n")
    if old != new:
        inside = lines_in_strings(text)
        moved: list[str] = []
        for i, line in enumerate(text.split("\n")):
            keep = i in inside or not line.strip() or not line.startswith(old)
            moved.append(line if keep else new + line[len(old) :])
        text = "\n".join(moved)
    if not text.endswith("\n"):
        text += "\n"
    return [(*lines, text)]


def _names(source: Source) -> frozenset[str]:
    """Every name that a file knows anywhere: read, bound, imported or defined."""
    read, bound = _read_and_bound(source.tree)
    return frozenset(read | bound) | _BUILTINS


def _steps(source: Source) -> frozenset[str]:
    """The texts of a file's statements."""
    return frozenset(source.of(place.node) for place in source.places if is_step(place))


def _values(source: Source) -> frozenset[str]:
    """The texts of a file's expressions."""
    return frozenset(source.of(place.node) for place in source.places if is_value(place))


def _read_and_bound(tree: ast.AST) -> tuple[set[str], set[str]]:
    read: set[str] = set()
    bound: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            (read if isinstance(node.ctx, ast.Load) else bound).add(node.id)
        elif isinstance(node, ast.arg):
            bound.add(node.arg)
        elif isinstance(node, _DEFS):
            bound.add(node.name)
        elif isinstance(node, ast.alias):
            bound.add((node.asname or node.name).partition(".")[0])
        elif isinstance(node, ast.ExceptHandler) and node.name:
            bound.add(node.name)
    return read, bound


def _foreign(node: ast.AST) -> set[str]:
    """Names that a part reads and does not bind itself."""
    read, bound = _read_and_bound(node)
    return read - bound


class Kind(NamedTuple):
    """A kind of part, and how often it is drawn relative to the others. No change: the constants are blended."""

    name: str
    weight: float
    change: Callable[[Source, Source, random.Random], list[Patch]] | None


_KINDS = (
    Kind("constants", 2, None),
    Kind("function", 2, _function),
    Kind("statement", 3, _statement),
    Kind("expression", 3, _expression),
)
