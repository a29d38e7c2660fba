"""How a data set's check compares answers, read from its source: does it fix each answer, and with which tolerance?

Recorded answers can stand in for a check only when the check says which value is right. `assert candidate(3) == 9` does; `x =
candidate(...); assert abs(poly(x)) < 1e-4` does not, since other answers are as right as the recorded one.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

_TRANSPARENT = ("list", "tuple", "dict")
_UNORDERED = ("sorted", "set", "frozenset", "Counter")
_CLOSE = ("isclose", "approx", "allclose")


@dataclass(frozen=True)
class Form:
    """What a check demands of answers: values, if `value` holds; in any order; within an absolute tolerance."""

    value: bool
    why: str = ""
    """When not `value`: the use of the candidate that does not fix its answer."""
    unordered: bool = False
    tolerance: float = 0.0


def form_of(test: str, names: tuple[str, ...]) -> Form:
    """The form of a check's source, in which the candidate is called by one of `names`. Raises SyntaxError."""
    tree = ast.parse(test)
    parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    unordered, tolerance, found = False, 0.0, False
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id in names):
            continue
        call = parents[node]
        if not (isinstance(call, ast.Call) and call.func is node):
            if not _harmless(node, parents):
                return Form(False, f"line {node.lineno}: {node.id} is used other than by calling it")
            continue
        if _in_message(call, parents):
            continue
        found = True
        use = _use(call, parents)
        if use is None:
            return Form(False, f"line {call.lineno}: {ast.unparse(_statement(call, parents))[:160]}")
        unordered, tolerance = unordered or use.unordered, max(tolerance, use.tolerance)
    return (
        Form(True, unordered=unordered, tolerance=tolerance) if found else Form(False, "the candidate is never called")
    )


def _harmless(node: ast.AST, parents: Mapping[ast.AST, ast.AST]) -> bool:
    """The candidate handed to the check itself: `check(add)`, or renamed: `add = candidate`."""
    parent = parents[node]
    if isinstance(parent, ast.Assign):
        return parent.value is node
    return isinstance(parent, ast.Call) and isinstance(parent.func, ast.Name) and parent.func.id == "check"


def _above(node: ast.AST, parents: Mapping[ast.AST, ast.AST]) -> Iterator[tuple[ast.AST, ast.AST]]:
    while node in parents:
        yield node, parents[node]
        node = parents[node]


def _in_message(node: ast.AST, parents: Mapping[ast.AST, ast.AST]) -> bool:
    return any(isinstance(parent, ast.Assert) and parent.msg is child for child, parent in _above(node, parents))


def _statement(node: ast.AST, parents: Mapping[ast.AST, ast.AST]) -> ast.AST:
    return next((parent for _, parent in _above(node, parents) if isinstance(parent, ast.stmt)), node)


def _use(call: ast.Call, parents: Mapping[ast.AST, ast.AST]) -> Form | None:
    """What one call's surroundings demand, or None when they fix no value."""
    unordered, tolerance = False, 0.0
    for child, parent in _above(call, parents):
        if isinstance(parent, ast.Call) and child in parent.args:
            name = parent.func.attr if isinstance(parent.func, ast.Attribute) else getattr(parent.func, "id", "")
            if name in _UNORDERED:
                unordered = True
            elif name == "round":
                digits = _constant(parent.args[1]) if len(parent.args) > 1 else 0.0
                tolerance = 10.0**-digits
            elif name in _CLOSE:
                given = (
                    _constant(keyword.value) for keyword in parent.keywords if keyword.arg in ("abs_tol", "atol", "abs")
                )
                return Form(True, unordered=unordered, tolerance=max(given, default=0.0))
            elif name not in _TRANSPARENT:
                return None
        elif isinstance(parent, ast.Compare):
            fixed = len(parent.ops) == 1 and isinstance(parent.ops[0], ast.Eq | ast.Is)
            return Form(True, unordered=unordered, tolerance=tolerance) if fixed else None
        elif isinstance(parent, ast.BinOp):
            return _difference(parent, parents)
        elif isinstance(parent, ast.UnaryOp) and isinstance(parent.op, ast.Not):
            continue
        else:
            return Form(True) if isinstance(parent, ast.Assert | ast.BoolOp) else None
    return None


def _difference(node: ast.BinOp, parents: Mapping[ast.AST, ast.AST]) -> Form | None:
    """`abs(candidate(...) - right) < tolerance`."""
    size = parents.get(node)
    bound = parents.get(size) if size is not None else None
    if not (isinstance(node.op, ast.Sub) and isinstance(size, ast.Call) and isinstance(bound, ast.Compare)):
        return None
    name = size.func.attr if isinstance(size.func, ast.Attribute) else getattr(size.func, "id", "")
    if name not in ("abs", "fabs") or len(bound.ops) != 1 or not isinstance(bound.ops[0], ast.Lt | ast.LtE):
        return None
    tolerance = _constant(bound.comparators[0])
    return Form(True, tolerance=tolerance) if tolerance > 0 else None


def _constant(node: ast.expr) -> float:
    """The value of an expression of numbers such as 1e-6 or 10**-6; 0 for anything else."""
    powers: dict[type[ast.operator], Callable[[float, float], float]] = {
        ast.Pow: lambda a, b: a**b if abs(b) <= 300 else 0.0,
        ast.Div: lambda a, b: a / b if b else 0.0,
        ast.Mult: lambda a, b: a * b,
    }
    if isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        return float(node.value)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_constant(node.operand)
    if isinstance(node, ast.BinOp) and type(node.op) in powers:
        try:
            return float(powers[type(node.op)](_constant(node.left), _constant(node.right)))
        except (OverflowError, ZeroDivisionError):
            return 0.0
    return 0.0
