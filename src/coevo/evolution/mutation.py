"""One small random change to a program's syntax, written into its source where it belongs.

Each kind of change lists nothing beforehand: it draws a place at random and says what would stand there, or that nothing
can. Kinds are drawn by weight until one gives a program that compiles and differs from its parent.
"""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Callable
from typing import NamedTuple

from coevo.evolution.bindings import more_unbound
from coevo.evolution.edits import finished
from coevo.evolution.places import (
    VALUES,
    body_of,
    draw,
    enclosed,
    is_number,
    is_step,
    is_value,
    of_type,
    seated,
    stands_alone,
)
from coevo.evolution.segments import Patch, Place, Source, pick, sources
from coevo.evolution.types import Edit, Proposal, Rejection
from coevo.programs import Program

TRIES = 32
"""Changes tried before a program counts as one that cannot be mutated."""

_LETTER = re.compile(r"[^\W\d]")


def mutate(program: Program, rng: random.Random) -> Proposal:
    """A child that differs in one place. `extra` holds the kind of change."""
    found = sources(program)
    if not found:
        return Proposal(
            Edit.MUTATE, None, Rejection.NOTHING_TO_CHANGE, "The program has no Python text that may change."
        )
    files = dict(program.files)
    last: Proposal | None = None
    for _ in range(TRIES):
        source = pick(found, rng)
        kind = rng.choices(_KINDS, [k.weight for k in _KINDS])[0]
        patches = kind.change(source, rng)
        text = source.patched(patches) if patches else source.text
        if text == source.text or (_names(source, patches) and more_unbound(source.text, text)):
            continue
        last = finished(program, {**files, source.name: text}, Edit.MUTATE)
        if last.program is not None:
            return Proposal(Edit.MUTATE, last.program, extra={"kind": kind.name})
    return last or Proposal(Edit.MUTATE, None, Rejection.NOTHING_TO_CHANGE, "No mutation found a place to work on.")


def _names(source: Source, patches: list[Patch]) -> bool:
    """Whether letters come or go: without any, no name gains or loses its value."""
    return any(_LETTER.search(text) or _LETTER.search(source.read((start, stop))) for start, stop, text in patches)


# Changes to numbers and operators


def _perturb(source: Source, rng: random.Random) -> list[Patch]:
    def numeric(place: Place) -> bool:
        node = place.node
        return isinstance(node, ast.Constant) and type(node.value) in (int, float) and abs(node.value) < 1e30  # type: ignore[arg-type]

    place = draw(source.places, rng, numeric)
    if place is None:
        return []
    value = place.node.value  # type: ignore[attr-defined]
    if isinstance(value, int):
        new: float = rng.choice([value + 1, value - 1, value + 2, value * 2, value // 2, value + rng.randint(-10, 10)])
    elif rng.random() < 0.5:
        new = value * (1 + rng.gauss(0, 0.2)) if value else rng.gauss(0, 1)
    else:
        new = rng.choice([value * 2, value / 2, value * 10, value / 10, -value, value + 1, 1 - value])
    text = repr(float(f"{new:.6g}")) if isinstance(new, float) else str(new)
    if "n" in text or len(text) > 40:
        return []
    return [(*source.span(place.node), f"({text})" if text.startswith("-") else text)]


_COMPARE = {"<": ("<=", ">"), "<=": ("<", ">="), ">": (">=", "<"), ">=": (">", "<="), "==": ("!=",), "!=": ("==",)}
_ARITHMETIC = {
    "+": ("-", "*"),
    "-": ("+", "*"),
    "*": ("+", "/", "**"),
    "/": ("*", "//", "-"),
    "//": ("/", "%", "*"),
    "%": ("//", "*"),
    "**": ("*",),
    "&": ("|", "^"),
    "|": ("&", "^"),
    "^": ("&", "|"),
    "<<": (">>", "*"),
    ">>": ("<<", "//"),
}
_BOOLEAN = {"and": ("or",), "or": ("and",)}
_AUGMENTED = {"+=": ("-=", "*="), "-=": ("+=",), "*=": ("+=", "/="), "/=": ("*=", "-="), "//=": ("/=",), "%=": ("//=",)}


def _between(
    source: Source, left: ast.AST, right: ast.AST, table: dict[str, tuple[str, ...]], rng: random.Random
) -> list[Patch]:
    """Swap the operator that stands between two nodes."""
    start, stop = source.span(left)[1], source.span(right)[0]
    gap = source.data[start:stop].decode()
    if "#" in gap:
        return []
    match = re.search(r"[-+*/%&|^<>=!]+|\band\b|\bor\b", gap)
    if match is None or match.group() not in table:
        return []
    low = start + len(gap[: match.start()].encode())
    return [(low, low + len(match.group()), rng.choice(table[match.group()]))]


def _operator(source: Source, rng: random.Random) -> list[Patch]:
    place = draw(source.places, rng, of_type(ast.BinOp, ast.Compare, ast.BoolOp, ast.AugAssign))
    if place is None:
        return []
    node = place.node
    if isinstance(node, ast.BinOp):
        return _between(source, node.left, node.right, _ARITHMETIC, rng)
    if isinstance(node, ast.AugAssign):
        return _between(source, node.target, node.value, _AUGMENTED, rng)
    if isinstance(node, ast.Compare):
        operands = [node.left, *node.comparators]
        i = rng.randrange(len(node.ops))
        return _between(source, operands[i], operands[i + 1], _COMPARE, rng)
    assert isinstance(node, ast.BoolOp)
    i = rng.randrange(len(node.values) - 1)
    return _between(source, node.values[i], node.values[i + 1], _BOOLEAN, rng)


# Changes to expressions


def _replace(source: Source, rng: random.Random) -> list[Patch]:
    """An expression gives way to another one of the same scope."""
    place = draw(source.places, rng, is_value)
    if place is None:
        return []

    def donor(other: Place) -> bool:
        return other is not place and other.scope == place.scope and is_value(other)

    other = draw(source.places, rng, donor)
    if other is None:
        return []
    text = source.of(other.node)
    return [] if "\n" in text or len(text) > 200 else seated(source, place, other.node, text)


def _exchange(source: Source, rng: random.Random) -> list[Patch]:
    """Two operands, or two arguments of a call, change places."""

    def pairs(place: Place) -> bool:
        node = place.node
        return isinstance(node, ast.BinOp) or (isinstance(node, ast.Call) and len(node.args) >= 2)

    place = draw(source.places, rng, pairs)
    if place is None:
        return []
    node = place.node
    if isinstance(node, ast.BinOp):
        first, second = Place(node.left, place, "left", 0, 0), Place(node.right, place, "right", 0, 0)
    else:
        i, j = rng.sample(range(len(node.args)), 2)  # type: ignore[attr-defined]
        first, second = (Place(node.args[k], place, "args", k, 0) for k in (i, j))  # type: ignore[attr-defined]
    if isinstance(first.node, ast.Starred) or isinstance(second.node, ast.Starred):
        return []
    return [
        *seated(source, first, second.node, source.of(second.node)),
        *seated(source, second, first.node, source.of(first.node)),
    ]


def _simplify(source: Source, rng: random.Random) -> list[Patch]:
    """An operation gives way to one of its operands, a condition to one of its branches, a call to an argument."""
    place = draw(
        source.places, rng, lambda p: is_value(p) and isinstance(p.node, (ast.BinOp, ast.IfExp, ast.BoolOp, ast.Call))
    )
    if place is None:
        return []
    node = place.node
    if isinstance(node, ast.BinOp):
        parts: list[ast.expr] = [node.left, node.right]
    elif isinstance(node, ast.IfExp):
        parts = [node.body, node.orelse]
    else:
        parts = node.values if isinstance(node, ast.BoolOp) else node.args  # type: ignore[attr-defined]
    parts = [part for part in parts if isinstance(part, VALUES)]
    if not parts:
        return []
    part = rng.choice(parts)
    return seated(source, place, part, source.of(part))


def _wrap(source: Source, rng: random.Random) -> list[Patch]:
    place = draw(source.places, rng, is_number)
    if place is None:
        return []
    inner = source.of(place.node)
    atom = enclosed(place.node, inner)
    factor = f"{rng.choice([0.5, 2.0, 0.9, 1.1, 1 + rng.gauss(0, 0.05)]):.4g}"
    around = [f"abs({inner})", f"max({inner}, 0)", f"{atom} * {factor}", f"{atom} + 1", f"{atom} - 1", f"-{atom}"]
    i = rng.randrange(len(around))
    bare = i < 2 or (stands_alone(source, place) and "\n" not in inner)
    return [(*source.span(place.node), around[i] if bare else f"({around[i]})")]


_TWINS = (
    *(("min", "max"), ("any", "all"), ("floor", "ceil"), ("sin", "cos"), ("minimum", "maximum"), ("argmin", "argmax")),
    *(("sum", "max"), ("sum", "min"), ("sqrt", "log"), ("exp", "sqrt"), ("mean", "median"), ("append", "appendleft")),
    *(("pop", "popleft"), ("heappush", "heappushpop"), ("bisect_left", "bisect_right"), ("zeros", "ones")),
    *(("round", "int"), ("sorted", "list"), ("union", "intersection"), ("set", "list")),
)


def _rename(source: Source, rng: random.Random) -> list[Patch]:
    """A well-known function gives way to its counterpart."""

    def called(place: Place) -> bool:
        func = place.node.func if isinstance(place.node, ast.Call) else None
        return getattr(func, "id", getattr(func, "attr", None)) in _COUNTERPARTS

    place = draw(source.places, rng, called)
    if place is None:
        return []
    func = place.node.func  # type: ignore[attr-defined]
    name = func.id if isinstance(func, ast.Name) else func.attr
    stop = source.span(func)[1]
    return [(stop - len(name), stop, rng.choice(_COUNTERPARTS[name]))]


_COUNTERPARTS: dict[str, list[str]] = {
    name: [b if name == a else a for a, b in _TWINS if name in (a, b)] for pair in _TWINS for name in pair
}


def _bounds(source: Source, rng: random.Random) -> list[Patch]:
    """A bound of a `range` moves by one, doubles or halves."""

    def ranged(place: Place) -> bool:
        node = place.node
        return (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id == "range"
            and bool(node.args)
        )

    place = draw(source.places, rng, ranged)
    if place is None:
        return []
    bound = rng.choice(place.node.args)  # type: ignore[attr-defined]
    if isinstance(bound, ast.Starred):
        return []
    text = enclosed(bound, source.of(bound))
    return [(*source.span(bound), text + rng.choice([" + 1", " - 1", " * 2", " // 2"]))]


def _negate(source: Source, rng: random.Random) -> list[Patch]:
    """A condition is turned around."""
    place = draw(source.places, rng, lambda p: p.field == "test" and isinstance(p.node, ast.expr))
    if place is None:
        return []
    node = place.node
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return seated(source, place, node.operand, source.of(node.operand))
    return [(*source.span(node), f"not {enclosed(node, source.of(node))}")]


# Changes to statements


def _delete(source: Source, rng: random.Random) -> list[Patch]:
    place = draw(source.places, rng, is_step)
    if place is None:
        return []
    node = place.node
    assert isinstance(node, ast.stmt)
    lines = source.lines(node)
    if len(body_of(place)) == 1 or lines is None:
        return [(*source.span(node), "pass")]
    return [(*lines, "")]


def _duplicate(source: Source, rng: random.Random) -> list[Patch]:
    """A statement is done twice, or once more later in the same block."""
    place = draw(
        source.places,
        rng,
        lambda p: is_step(p) and not isinstance(p.node, (ast.Return, ast.Break, ast.Continue, ast.Raise)),
    )
    if place is None:
        return []
    body = body_of(place)
    target = rng.choice(body[place.index :])
    lines, goal = source.lines(place.node), source.lines(target)  # type: ignore[arg-type]
    if lines is None or goal is None or not source.is_free(goal) or isinstance(target, (ast.Return, ast.Raise)):
        return []
    return [(goal[1], goal[1], _whole(source.read(lines)))]


def _swap(source: Source, rng: random.Random) -> list[Patch]:
    """Two neighbouring statements change places."""
    place = draw(source.places, rng, lambda p: is_step(p) and p.index + 1 < len(body_of(p)))
    if place is None:
        return []
    following = body_of(place)[place.index + 1]
    first, second = source.lines(place.node), source.lines(following)  # type: ignore[arg-type]
    if first is None or second is None or not source.is_free(second):
        return []
    return [(*first, _whole(source.read(second))), (*second, _whole(source.read(first)))]


def _whole(lines: str) -> str:
    return lines if lines.endswith("\n") else lines + "\n"


class Kind(NamedTuple):
    """A kind of change, and how often it is drawn relative to the others."""

    name: str
    weight: float
    change: Callable[[Source, random.Random], list[Patch]]


_KINDS = (
    Kind("perturb", 3, _perturb),
    Kind("operator", 3, _operator),
    Kind("replace", 3, _replace),
    Kind("exchange", 0.7, _exchange),
    Kind("simplify", 1, _simplify),
    Kind("wrap", 1.5, _wrap),
    Kind("rename", 1, _rename),
    Kind("bounds", 1, _bounds),
    Kind("negate", 0.5, _negate),
    Kind("delete", 1.5, _delete),
    Kind("duplicate", 0.7, _duplicate),
    Kind("swap", 1.5, _swap),
)
KINDS = tuple(kind.name for kind in _KINDS)
"""Names of all kinds of change."""
