"""The numeric constants of a program as a vector, for an optimiser to move.

Which literals count: decimal floats, and decimal integers other than 0, 1 and -1. Those three are structure (counters, base
cases, signs): they are neither moved nor produced, so that a program keeps its skeleton whatever is
put in. Structure, too: booleans, complex numbers, hexadecimal, octal and binary literals, integers beyond 10^15, and
everything inside an index or a slice. Minus signs before a literal belong to it.
"""

from __future__ import annotations

import ast
import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from coevo.errors import UsageError
from coevo.evolution.edits import finished
from coevo.evolution.segments import Patch, Place, Source, sources
from coevo.evolution.syntax import MEMO_CHARS
from coevo.evolution.types import Edit, Proposal, Rejection
from coevo.programs import Program

NumberKind = Literal["int", "float"]

MAX_INT = 10**15
_STRUCTURAL = frozenset({0, 1, -1})


@dataclass(frozen=True)
class Constants:
    """The constants of a program in source order (files by name), and the hash of the program without them."""

    skeleton: str
    """16 hex digits. Equal for programs that differ in their constants, layout and comments only."""
    vector: tuple[float, ...]
    kinds: tuple[NumberKind, ...]

    @property
    def scales(self) -> tuple[float, ...]:
        """A natural step for each constant: its size, at least 4 for an integer, 1 for a float that is 0."""
        return tuple(
            max(abs(value), 4.0) if kind == "int" else abs(value) or 1.0
            for value, kind in zip(self.vector, self.kinds, strict=True)
        )


def constants(program: Program) -> Constants:
    """What an optimiser may move in a program. A program that does not parse has no constants."""
    return (_remembered if program.size <= MEMO_CHARS else _constants)(program)


def _constants(program: Program) -> Constants:
    found = sources(program)
    literals = {source.name: source.derived(_literals) for source in found}
    digest = hashlib.sha256()
    for name, text in program.files:
        source = next((s for s in found if s.name == name), None)
        shape = text if source is None else _shape(source.tree, {id(lit.node) for lit in literals[name]})
        digest.update(f"{name}\n{len(shape)}\n{shape}".encode("utf-8", "surrogatepass"))
    everything = [literal for source in found for literal in literals[source.name]]
    return Constants(
        digest.hexdigest()[:16],
        tuple(float(literal.value) for literal in everything),
        tuple("int" if isinstance(literal.value, int) else "float" for literal in everything),
    )


_remembered = lru_cache(maxsize=24)(_constants)


def with_constants(program: Program, vector: Sequence[float]) -> Proposal:
    """The program with these constants in place of its own, in the order of `constants`.

    Integers are rounded, and kept away from 0, 1 and -1; numbers that are not finite leave their constant alone. The result
    has the same skeleton. Raises `UsageError` when the vector has another length.
    """
    found = sources(program)
    literals = [(source, literal) for source in found for literal in source.derived(_literals)]
    if len(literals) != len(vector):
        raise UsageError(f"program {program.id} has {len(literals)} constants, the vector {len(vector)}")
    if not literals:
        return Proposal(Edit.TUNE, None, Rejection.NOTHING_TO_CHANGE, "The program has no numeric constant to tune.")
    patches: dict[str, list[Patch]] = {}
    for (source, literal), value in zip(literals, vector, strict=True):
        text = _written(literal, value)
        if text is not None:
            start, stop = source.span(literal.node)
            patches.setdefault(source.name, []).append((start, stop, text))
    files = dict(program.files)
    for source in found:
        if source.name in patches:
            files[source.name] = source.patched(patches[source.name])
    return finished(program, files, Edit.TUNE)


def tune(program: Program, offsets: Sequence[float]) -> Proposal:
    """The program with each constant moved by its offset, in units of its scale."""
    own = constants(program)
    if len(own.vector) != len(offsets):
        raise UsageError(f"program {program.id} has {len(own.vector)} constants, the offsets are {len(offsets)}")
    return with_constants(program, [v + o * s for v, o, s in zip(own.vector, offsets, own.scales, strict=True)])


@dataclass(frozen=True, slots=True)
class Number:
    """A number in the source, with its sign."""

    node: ast.expr
    value: int | float
    signed: bool


def _literals(source: Source) -> list[Number]:
    found: list[tuple[int, Number]] = []
    for place in source.places:
        literal = _literal(source, place)
        if literal is not None:
            found.append((source.span(literal.node)[0], literal))
    return [literal for _, literal in sorted(found, key=lambda pair: pair[0])]


def _literal(source: Source, place: Place) -> Number | None:
    node = place.node
    if not isinstance(node, ast.Constant) or type(node.value) not in (int, float):
        return None
    value: int | float = node.value  # type: ignore[assignment]
    if _in_index(place):
        return None
    if isinstance(value, int):
        if value in _STRUCTURAL or value > MAX_INT or source.data[source.span(node)[0] + 1 :][:1].isalpha():
            return None
    elif not math.isfinite(value):
        return None
    whole: ast.expr = node
    above = place.parent
    while above is not None and isinstance(above.node, ast.UnaryOp) and isinstance(above.node.op, ast.USub):
        if not source.is_free(source.span(above.node)):
            break
        whole, value, above = above.node, -value, above.parent
    return Number(whole, value, whole is not node)


def _in_index(place: Place) -> bool:
    at: Place | None = place
    while at is not None and isinstance(at.node, ast.expr) and not isinstance(at.node, ast.Call):
        if at.field == "slice":
            return True
        at = at.parent
    return False


def _written(literal: Number, value: float) -> str | None:
    """The literal for a new value; None when it keeps its own."""
    if not math.isfinite(value):
        return None
    if isinstance(literal.value, int):
        new: int | float = max(-MAX_INT, min(MAX_INT, round(value)))
        if new in _STRUCTURAL:
            new = 2 if value >= 0 else -2
    else:
        new = float(value)
    if new == literal.value and math.copysign(1, new) == math.copysign(1, literal.value):
        return None
    text = repr(new)
    return f"({text})" if text.startswith("-") and not literal.signed else text


def _shape(tree: ast.Module, moved: set[int]) -> str:
    """The tree as text, without positions and without the values of the moved constants."""
    out: list[str] = []
    stack: list[object] = [tree]
    while stack:
        node = stack.pop()
        if not isinstance(node, ast.AST):
            out.append(repr(node))
            continue
        if id(node) in moved:
            while isinstance(node, ast.UnaryOp):
                node = node.operand
            out.append("#f" if isinstance(node.value, float) else "#i")  # type: ignore[attr-defined]
            continue
        out.append(type(node).__name__)
        below: list[object] = []
        for field in node._fields:
            value = getattr(node, field, None)
            if type(value) is list:
                out.append(str(len(value)))
                below += value
            elif not isinstance(value, ast.AST):
                out.append(repr(value))
            elif field != "ctx":  # Follows from where the node stands.
                below.append(value)
        below.reverse()
        stack += below
    return " ".join(out)
