"""The grammar of terms: reading and writing. A term is a number read off a frame, said in a small closed language.

    drift(mean(reward)) - drift(mean(truth))                 reward rises, truth does not
    share(by_group(spread(reward)) <= 0.000001)              dead groups
    corr(centred(tokens), centred(reward))                   is length paid, within a group?
    share(stop_reason == "length" and reward > 0)

Text is read with Python's own parser and then checked node by node: numbers, quoted words, columns (`reward`, `parts.format`, `column("odd name")`),
`+ - * /`, comparisons, `and`, `or`, `not`, and the functions of `FUNCTIONS`. Nothing is executed.

Every expression has a domain: `rows` (a value per rollout), `group`, `step`, `task` (a value for each, made by `by_group` and its kin), or `one`. Values of different
domains are never mixed. A whole term is `one`.
"""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, NoReturn

from coevo.errors import UsageError, pick
from coevo.evidence.types import NUMBERS, TEXTS, WORDS

MAX_CHARS = 1000
MAX_NODES = 120
MAX_DEPTH = 24

HIDDEN = ("run", "branch", "source", "schema")
"""Columns that name where a rollout came from: a diagnostic of them would know the branch, not what it does."""


@dataclass(frozen=True)
class Number:
    value: float


@dataclass(frozen=True)
class Word:
    value: str


@dataclass(frozen=True)
class Column:
    name: str


@dataclass(frozen=True)
class Apply:
    """An operator or a function and what it is applied to."""

    name: str
    args: tuple[Node, ...]


Node = Number | Word | Column | Apply


class Function(NamedTuple):
    """What a function takes: `one`: makes one value of many; `each`: value by value; `by`: one value for each group (step, task); `window`: of some steps."""

    kind: str
    arity: int
    about: str


FUNCTIONS = {
    "mean": Function("one", 1, "mean"),
    "sd": Function("one", 1, "sample standard deviation"),
    "median": Function("one", 1, "median"),
    "least": Function("one", 1, "smallest"),
    "most": Function("one", 1, "largest"),
    "spread": Function("one", 1, "largest less smallest"),
    "share": Function("one", 1, "share that is not 0 (that holds)"),
    "quantile": Function("one", 2, "quantile(x, q), q from 0 to 1"),
    "corr": Function("one", 2, "Pearson's correlation, where both are known"),
    "rank_corr": Function("one", 2, "Spearman's"),
    "ratio": Function("one", 2, "mean of the first over mean of the second, where both are known"),
    "distinct": Function("one", 1, "different values (or words), as a share of all"),
    "abs": Function("each", 1, "magnitude"),
    "where": Function("each", 2, "where(x, condition): x where it holds, unknown elsewhere"),
    "missing": Function("each", 1, "whether the column says nothing"),
    "present": Function("each", 1, "whether the column says something"),
    "centred": Function("each", 1, "less the mean of its group"),
    "by_group": Function("by", 1, "one value for each group"),
    "by_step": Function("by", 1, "one value for each step"),
    "by_task": Function("by", 1, "one value for each task"),
    "early": Function("window", 1, "of the rollouts of the first third of the steps"),
    "late": Function("window", 1, "of the last third"),
    "drift": Function("window", 1, "late less early"),
}

ARITHMETIC = {"+": 4, "-": 4, "*": 5, "/": 5}
COMPARISONS = ("<", "<=", ">", ">=", "==", "!=")
_PRECEDENCE = {"or": 1, "and": 2, "not": 2.5, **dict.fromkeys(COMPARISONS, 3), **ARITHMETIC, "neg": 6}
_BINARY = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
_COMPARE = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}
_PLAIN_NAME = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)
_KEYWORDS = {"and", "or", "not", "if", "else", "in", "is", "lambda", "None", "True", "False", "for", "await", "column"}


def parse(text: str) -> Node:
    """The tree of a term. Raises `UsageError` that shows what is wrong and what would do."""
    if len(text) > MAX_CHARS:
        raise UsageError(f"a term of {len(text):,} characters; {MAX_CHARS:,} are the limit")
    try:
        body = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as e:
        _wrong(text, f"it cannot be read: {getattr(e, 'msg', None) or e}")
    tree = _Reader(text).read(body, 0)
    if sum(1 for _ in nodes(tree)) > MAX_NODES:
        _wrong(text, f"it has more than {MAX_NODES} parts")
    domain = domain_of(tree, text)
    if domain != "one":
        _wrong(text, f"it is a value for each of {domain}, not one number; wrap it: mean(...), share(...)")
    return tree


def nodes(tree: Node) -> Iterator[Node]:
    yield tree
    if isinstance(tree, Apply):
        for arg in tree.args:
            yield from nodes(arg)


def write(tree: Node, outer: float = 0) -> str:
    """The text of a tree, with no more brackets than it takes; `parse` of it gives the tree again."""
    if isinstance(tree, Number):
        return _digits(tree.value)
    if isinstance(tree, Word):
        return _quoted(tree.value)
    if isinstance(tree, Column):
        plain = _PLAIN_NAME.fullmatch(tree.name) and not _KEYWORDS & set(tree.name.split("."))
        return tree.name if plain else f"column({_quoted(tree.name)})"
    level = _PRECEDENCE.get(tree.name)
    if level is None:
        return f"{tree.name}({', '.join(write(arg) for arg in tree.args)})"
    if tree.name == "neg":
        text = "-" + write(tree.args[0], level)
    elif tree.name == "not":
        text = "not " + write(tree.args[0], level)
    else:
        tight = level if tree.name in ("and", "or", *ARITHMETIC) else level + 0.1
        text = f"{write(tree.args[0], tight)} {tree.name} {write(tree.args[1], level + 0.1)}"
    return f"({text})" if level < outer else text


def domain_of(tree: Node, text: str = "", inside: str = "") -> str:
    """rows, group, step, task or one; `inside`: of what a `by_` around it makes one value each. Raises `UsageError` for a mixture."""
    if isinstance(tree, Number | Word):
        return "one"
    if isinstance(tree, Column):
        return "rows"
    domains = [domain_of(arg, text, inside or _inside(tree.name)) for arg in tree.args]
    kind = FUNCTIONS[tree.name].kind if tree.name in FUNCTIONS else "each"
    if kind == "one":
        _require(
            any(d != "one" for d in domains[:1]), text, f"{tree.name}(...) wants a column or values, not one number"
        )
        values = domains[:1] if tree.name == "quantile" else domains
        _require(len(set(values)) == 1, text, f"{tree.name}(...) mixes values for {' and for '.join(values)}")
        return "one"
    if kind in ("by", "window"):
        _require(not inside, text, f"{tree.name}(...) cannot stand inside {inside}(...)")
        _require(domains == ["one"], text, f"{tree.name}(...) wants one number, like mean(reward), inside it")
        return tree.name.removeprefix("by_") if kind == "by" else "one"
    if tree.name in ("missing", "present", "centred"):
        _require(domains == ["rows"], text, f"{tree.name}(...) wants a value for each rollout")
        return "rows"
    wide = {d for d in domains if d != "one"}
    _require(len(wide) <= 1, text, f"'{tree.name}' mixes values for {' and for '.join(sorted(wide))}")
    return wide.pop() if wide else "one"


def _inside(name: str) -> str:
    return name if name in FUNCTIONS and FUNCTIONS[name].kind in ("by", "window") else ""


class _Reader:
    """From Python's tree to ours."""

    def __init__(self, text: str) -> None:
        self.text = text

    def read(self, node: ast.expr, depth: int, *, word: bool = False) -> Node:
        """`word`: a column of words is expected."""
        if depth > MAX_DEPTH:
            _wrong(self.text, f"it is nested deeper than {MAX_DEPTH}")
        if isinstance(node, ast.Constant):
            return self._constant(node)
        if isinstance(node, ast.Name | ast.Attribute):
            return self._column(_dotted(node) or self._strange(node), word)
        if isinstance(node, ast.Call):
            return self._call(node, depth)
        if isinstance(node, ast.Compare):
            return self._compare(node, depth)
        if isinstance(node, ast.BinOp) and type(node.op) in _BINARY:
            return Apply(_BINARY[type(node.op)], (self.read(node.left, depth + 1), self.read(node.right, depth + 1)))
        if isinstance(node, ast.BoolOp):
            name = "and" if isinstance(node.op, ast.And) else "or"
            return _chain(name, [self.read(value, depth + 1) for value in node.values])
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.Not):
            inner = self.read(node.operand, depth + 1)
            if isinstance(node.op, ast.Not):
                return Apply("not", (inner,))
            return Number(-inner.value) if isinstance(inner, Number) else Apply("neg", (inner,))
        return self._strange(node)

    def _strange(self, node: ast.expr) -> NoReturn:
        shown = ast.get_source_segment(self.text.strip(), node) or type(node).__name__
        _wrong(
            self.text,
            f"{shown[:60]!r} is not part of the language: columns, numbers, + - * /, comparisons, and/or/not, {_names()}",
        )

    def _constant(self, node: ast.Constant) -> Node:
        if isinstance(node.value, bool) or not isinstance(node.value, int | float | str):
            self._strange(node)
        if isinstance(node.value, str):
            _wrong(self.text, f"the word {node.value!r} can only be compared: stop_reason == {node.value!r}")
        try:
            value = float(node.value)
        except OverflowError:
            value = math.inf
        if not math.isfinite(value):
            _wrong(self.text, "a number in it is too large")
        return Number(value)

    def _column(self, name: str, word: bool) -> Column:
        if name in HIDDEN:
            _wrong(self.text, f"{name!r} names where a rollout came from; a diagnostic may look at what it does only")
        if name in TEXTS:
            _wrong(self.text, f"{name!r} is text; what was computed from texts are columns text.NAME")
        if name in FUNCTIONS:
            _wrong(self.text, f"{name!r} is a function: {name}(...)")
        if name in WORDS and not word:
            _wrong(
                self.text,
                f'{name!r} holds words; compare it ({name} == "..."), or use distinct({name}), missing({name})',
            )
        if name in NUMBERS and word:
            _wrong(self.text, f"{name!r} holds numbers; it cannot be compared with a word")
        return Column(name)

    def _call(self, node: ast.Call, depth: int) -> Node:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if not name or node.keywords or any(isinstance(arg, ast.Starred) for arg in node.args):
            self._strange(node)
        if name == "column":
            return self._odd(node, word=False)
        try:
            function = pick(name, FUNCTIONS, kind="function")
        except UsageError as e:
            _wrong(self.text, str(e))
        if len(node.args) != function.arity:
            _wrong(self.text, f"{name}(...) takes {function.arity} argument(s), not {len(node.args)}: {function.about}")
        if name in ("distinct", "missing", "present"):
            if (column := self._name_in(node.args[0])) is not None:
                return Apply(name, (self._column(column, column not in NUMBERS),))
            if name != "distinct":
                _wrong(self.text, f"{name}(...) wants a column")
        args = tuple(self.read(arg, depth + 1) for arg in node.args)
        if name == "quantile" and not (isinstance(args[1], Number) and 0 <= args[1].value <= 1):
            _wrong(self.text, "quantile(x, q) wants a number q from 0 to 1")
        return Apply(name, args)

    def _odd(self, node: ast.Call, *, word: bool) -> Column:
        name = node.args[0] if len(node.args) == 1 else None
        if isinstance(name, ast.Constant) and isinstance(name.value, str):
            return self._column(name.value, word)
        return _wrong(self.text, 'column(...) wants the name of a column in quotes: column("odd name")')

    def _name_in(self, node: ast.expr) -> str | None:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "column":
            return self._odd(node, word=True).name if self._quoted_word(node) else None
        return _dotted(node)

    def _quoted_word(self, node: ast.Call) -> bool:
        return len(node.args) == 1 and isinstance(node.args[0], ast.Constant) and node.args[0].value not in NUMBERS

    def _compare(self, node: ast.Compare, depth: int) -> Node:
        sides = [node.left, *node.comparators]
        found = [self._one(a, op, b, depth) for a, op, b in zip(sides[:-1], node.ops, sides[1:], strict=True)]
        return _chain("and", found)

    def _one(self, left: ast.expr, op: ast.cmpop, right: ast.expr, depth: int) -> Node:
        name = _COMPARE.get(type(op))
        if name is None:
            _wrong(self.text, f"comparisons are {' '.join(COMPARISONS)}")
        for a, b in ((left, right), (right, left)):
            if isinstance(b, ast.Constant) and isinstance(b.value, str):
                column = self._name_in(a)
                if column is None or name not in ("==", "!="):
                    _wrong(self.text, f"a word is compared with a column, by == or !=: stop_reason == {b.value!r}")
                return Apply(name, (self._column(column, True), Word(b.value)))
        return Apply(name, (self.read(left, depth + 1), self.read(right, depth + 1)))


def _chain(name: str, found: list[Node]) -> Node:
    tree = found[0]
    for one in found[1:]:
        tree = Apply(name, (tree, one))
    return tree


def _dotted(node: ast.expr) -> str | None:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (head := _dotted(node.value)) is not None:
        return f"{head}.{node.attr}"
    return None


def _digits(value: float) -> str:
    text = f"{value:g}"
    return text if float(text) == value else repr(value)


def _quoted(text: str) -> str:
    return repr(text) if '"' in text or "\\" in text or not text.isprintable() else f'"{text}"'


def _names() -> str:
    return ", ".join(FUNCTIONS)


def _require(holds: bool, text: str, why: str) -> None:
    if not holds:
        _wrong(text, why)


def _wrong(text: str, why: str) -> NoReturn:
    shown = text.strip() if len(text) <= 120 else f"{text.strip()[:117]}..."
    raise UsageError(f"term {shown!r}: {why}")
