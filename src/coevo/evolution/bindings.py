"""Names that a file reads before, or without, giving them a value: a program that does so mostly crashes at once.

An approximation in the order of execution: a branch that binds a name counts as taken, a function as called when all of
its surroundings have run. Files with `import *`, `exec` or `del` of names are judged like any other, so the result
says something only in comparison with a parent's.
"""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from coevo.evolution.syntax import parse, parts

_KNOWN = frozenset(dir(builtins)) | {"__file__", "__name__", "__doc__", "__class__"}
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_DEFINITIONS = frozenset((*_FUNCTIONS, ast.ClassDef))
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def unbound(tree: ast.Module) -> frozenset[tuple[str, str]]:
    """(function, name) of every name read there that has no value; the function is empty at the top level.

    Nothing is said of a tree too deep to walk.
    """
    module = _Scope("", set(_KNOWN))
    try:
        module.run(tree.body)
    except RecursionError:
        return frozenset()
    return frozenset(module.missing)


def more_unbound(parent: str, child: str) -> bool:
    """Whether a child's text reads names without a value that its parent's does not. Text that is not Python reads none."""
    return not _unbound_in(child) <= _unbound_in(parent)


@lru_cache(maxsize=16)
def _unbound_in(text: str) -> frozenset[tuple[str, str]]:
    """An operator asks for its parent again at every try."""
    tree = parse(text)
    return frozenset() if tree is None else unbound(tree)


class _Scope:
    """One function or module. `bound` grows as its statements are gone through in order."""

    def __init__(self, name: str, outside: set[str], own: frozenset[str] = frozenset()) -> None:
        self.name, self.own = name, own
        self.bound = outside - own
        """Names with a value. One that the function binds itself hides that of the outside."""
        self.missing: list[tuple[str, str]] = []
        self._later: list[ast.AST] = []

    def run(self, body: list[ast.stmt]) -> None:
        for statement in body:
            self.visit(statement)
        for function in self._later:
            self._enter(function)

    def visit(self, node: ast.AST) -> None:
        kind = type(node)
        if kind is ast.Constant:
            return
        if isinstance(node, ast.Name):
            if not isinstance(node.ctx, ast.Load):
                self.bound.add(node.id)
            elif node.id not in self.bound:
                self.missing.append((self.name, node.id))
            return
        if kind in _DEFINITIONS:
            self._define(node)
            return
        for part in _ORDERS.get(kind, parts)(node):
            self.visit(part)
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            self.bound |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            self.bound |= set(node.names)

    def _define(self, node: ast.AST) -> None:
        """What a definition reads at once: decorators, defaults, bases; its body is gone through later."""
        for part in [*getattr(node, "decorator_list", ()), *getattr(node, "bases", ())]:
            self.visit(part)
        if isinstance(node, _FUNCTIONS):
            for part in [*node.args.defaults, *filter(None, node.args.kw_defaults)]:
                self.visit(part)
            self._later.append(node)
        elif isinstance(node, ast.ClassDef):
            for statement in node.body:
                self.visit(statement)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            self.bound.add(node.name)

    def _enter(self, node: ast.AST) -> None:
        assert isinstance(node, _FUNCTIONS)
        body: list[ast.stmt] = [ast.Expr(node.body)] if isinstance(node, ast.Lambda) else node.body
        inner = _Scope(getattr(node, "name", "lambda"), self.bound, _own(body))
        inner.bound |= {a.arg for a in ast.walk(node.args) if isinstance(a, ast.arg)}
        inner.run(body)
        self.missing += inner.missing


def _assigned(node: ast.Assign) -> list[ast.AST]:
    return [node.value, *node.targets]


def _named(node: ast.AnnAssign | ast.NamedExpr) -> list[ast.AST]:
    return [*filter(None, [node.value]), node.target]


def _augmented(node: ast.AugAssign) -> list[ast.AST]:
    read = [ast.Name(node.target.id, ast.Load())] if isinstance(node.target, ast.Name) else []
    return [*read, node.value, node.target]


def _looped(node: ast.For | ast.AsyncFor) -> list[ast.AST]:
    return [node.iter, node.target, *node.body, *node.orelse]


def _comprehended(node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp) -> list[ast.AST]:
    values: list[ast.AST] = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
    return [*node.generators, *values]


def _caught(node: ast.ExceptHandler) -> list[ast.AST]:
    named = [ast.Name(node.name, ast.Store())] if node.name else []
    return [*filter(None, [node.type]), *named, *node.body]


def _matched(node: ast.MatchAs | ast.MatchStar | ast.MatchMapping) -> list[ast.AST]:
    name = node.rest if isinstance(node, ast.MatchMapping) else node.name
    return [*([ast.Name(name, ast.Store())] if name else []), *parts(node)]


_ORDERS: dict[type[ast.AST], Callable[[Any], list[ast.AST]]] = {
    ast.Assign: _assigned,
    **dict.fromkeys((ast.AnnAssign, ast.NamedExpr), _named),
    ast.AugAssign: _augmented,
    **dict.fromkeys((ast.For, ast.AsyncFor), _looped),
    ast.comprehension: lambda node: [node.iter, node.target, *node.ifs],
    **dict.fromkeys(_COMPREHENSIONS, _comprehended),
    ast.ExceptHandler: _caught,
    **dict.fromkeys((ast.MatchAs, ast.MatchStar, ast.MatchMapping), _matched),
}
"""The parts of a node in the order in which they are evaluated, where that is not the order of its fields."""


def _own(body: list[ast.stmt]) -> frozenset[str]:
    """Names that a function binds itself, so that they are local in all of it."""
    found: set[str] = set()
    shared: set[str] = set()
    todo: list[ast.AST] = list(body)
    while todo:
        node = todo.pop()
        kind = type(node)
        if isinstance(node, ast.Name):
            if not isinstance(node.ctx, ast.Load):
                found.add(node.id)
            continue
        if isinstance(node, (ast.Global, ast.Nonlocal)):
            shared |= set(node.names)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            found |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        if kind not in _DEFINITIONS and kind not in _COMPREHENSIONS:
            todo += parts(node)
    return frozenset(found - shared)
