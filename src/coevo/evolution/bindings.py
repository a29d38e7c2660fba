"""Names that a file reads before, or without, giving them a value: a program that does so mostly crashes at once.

An approximation in the order of execution: a branch that binds a name counts as taken, a function as called when all of
its surroundings have run. Files with `import *`, `exec` or `del` of names are judged like any other, so the result
says something only in comparison with a parent's.
"""

from __future__ import annotations

import ast
import builtins
from functools import lru_cache

from coevo.evolution.syntax import parse

_KNOWN = frozenset(dir(builtins)) | {"__file__", "__name__", "__doc__", "__class__"}
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
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


@lru_cache(maxsize=4)
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
        if isinstance(node, ast.Name):
            if not isinstance(node.ctx, ast.Load):
                self.bound.add(node.id)
            elif node.id not in self.bound:
                self.missing.append((self.name, node.id))
            return
        if isinstance(node, (*_FUNCTIONS, ast.ClassDef)):
            self._define(node)
            return
        for part in _in_order(node):
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


def _in_order(node: ast.AST) -> list[ast.AST]:
    """The parts of a node in the order in which they are evaluated, where that is not the order of its fields."""
    if isinstance(node, ast.Assign):
        return [node.value, *node.targets]
    if isinstance(node, (ast.AnnAssign, ast.NamedExpr)):
        return [*filter(None, [node.value]), node.target]
    if isinstance(node, ast.AugAssign):
        read = [ast.Name(node.target.id, ast.Load())] if isinstance(node.target, ast.Name) else []
        return [*read, node.value, node.target]
    if isinstance(node, (ast.For, ast.AsyncFor)):
        return [node.iter, node.target, *node.body, *node.orelse]
    if isinstance(node, ast.comprehension):
        return [node.iter, node.target, *node.ifs]
    if isinstance(node, _COMPREHENSIONS):
        values: list[ast.AST] = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        return [*node.generators, *values]
    if isinstance(node, ast.ExceptHandler):
        named = [ast.Name(node.name, ast.Store())] if node.name else []
        return [*filter(None, [node.type]), *named, *node.body]
    if isinstance(node, (ast.MatchAs, ast.MatchStar, ast.MatchMapping)):
        name = node.rest if isinstance(node, ast.MatchMapping) else node.name
        return [*([ast.Name(name, ast.Store())] if name else []), *ast.iter_child_nodes(node)]
    return list(ast.iter_child_nodes(node))


def _own(body: list[ast.stmt]) -> frozenset[str]:
    """Names that a function binds itself, so that they are local in all of it."""
    found: set[str] = set()
    shared: set[str] = set()
    todo: list[ast.AST] = list(body)
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            found.add(node.id)
        elif isinstance(node, (ast.Global, ast.Nonlocal)):
            shared |= set(node.names)
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            found |= {(alias.asname or alias.name).partition(".")[0] for alias in node.names}
        if not isinstance(node, (*_FUNCTIONS, ast.ClassDef, *_COMPREHENSIONS)):
            todo += ast.iter_child_nodes(node)
    return frozenset(found - shared)
