"""Terms: a number read off a frame, as a formula that people, agents and the playbook can write (`coevo.backtest.syntax` is the grammar).

term = Term.parse("drift(mean(reward)) - drift(mean(truth))")
term.evaluate(frame)        # float; NaN where the evidence does not say
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from coevo.backtest import aggregates
from coevo.backtest.syntax import FUNCTIONS, Apply, Column, Node, Number, Word, domain_of, nodes, parse, write
from coevo.errors import UsageError
from coevo.evidence.types import WORDS, Frame

MIN_STEPS = 6
"""Steps that `early` and `late` take: two in each third."""
POINTS = 100
"""Of a course over steps."""


@dataclass(frozen=True)
class Term:
    """A checked formula. Equal formulas are equal terms, however they were spaced and bracketed."""

    tree: Node

    @classmethod
    def parse(cls, text: str) -> Term:
        """Raises `UsageError` that shows what is wrong with the text."""
        return cls(parse(text))

    def __str__(self) -> str:
        return write(self.tree)

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """All it looks at, in order of appearance."""
        return tuple(dict.fromkeys(node.name for node in nodes(self.tree) if isinstance(node, Column)))

    @cached_property
    def needs(self) -> tuple[str, ...]:
        """Columns without which it says nothing: all but those it only asks the presence of."""
        asked = {id(n.args[0]) for n in nodes(self.tree) if isinstance(n, Apply) and n.name in ("missing", "present")}
        found = (n.name for n in nodes(self.tree) if isinstance(n, Column) and id(n) not in asked)
        return tuple(dict.fromkeys(found))

    def evaluate(self, frame: Frame) -> float:
        """Its value; NaN where the evidence does not say (a column is missing, too few steps, nothing varies)."""
        with np.errstate(all="ignore"):
            value = float(_Scope(frame, np.arange(frame.rows)).value(self.tree).item())
        return value if math.isfinite(value) else math.nan

    def course(self, frame: Frame) -> tuple[tuple[float, float], ...]:
        """(step, value) at up to `POINTS` steps; empty where it compares steps itself, or the frame has none."""
        wrapped = Apply("by_step", (self.tree,))
        try:
            domain_of(wrapped)
        except UsageError:
            return ()
        scope = _Scope(frame, np.arange(frame.rows))
        _, _, steps = scope.labels("step")
        with np.errstate(all="ignore"):
            values = scope.value(wrapped)
        known = np.flatnonzero(np.isfinite(values))
        if len(known) > POINTS:
            known = known[np.linspace(0, len(known) - 1, POINTS).round().astype(int)]
        return tuple((float(steps[i]), float(values[i])) for i in known)

    def support(self, frame: Frame) -> int:
        """Rollouts that have every column it needs."""
        fine = np.ones(frame.rows, dtype=bool)
        for name in self.needs:
            fine &= _there(frame, name)
        return int(fine.sum())


class _Scope:
    """Some rows of a frame. Inside `by_`, aggregates give one value per label instead of one."""

    def __init__(self, frame: Frame, rows: np.ndarray, by: tuple[np.ndarray, int] | None = None) -> None:
        self.frame, self.rows, self.by = frame, rows, by

    def value(self, node: Node) -> np.ndarray:
        """(rows,), (labels of a `by_`,) or (1,), by the node's domain."""
        if isinstance(node, Number):
            return np.array([node.value])
        if isinstance(node, Column):
            return self.frame.numbers(node.name)[self.rows]
        assert isinstance(node, Apply)
        function = FUNCTIONS.get(node.name)
        if function is None:
            return self._operator(node)
        if function.kind == "one":
            return self._aggregate(node)
        if function.kind == "by":
            labels, size, _ = self.labels(node.name.removeprefix("by_"))
            rows = labels >= 0
            found = _Scope(self.frame, self.rows[rows], (labels[rows], size)).value(node.args[0])
            return np.broadcast_to(found, (size,))
        if function.kind == "window":
            return self._window(node)
        return self._each(node)

    def labels(self, what: str) -> tuple[np.ndarray, int, np.ndarray]:
        """Of these rows: which group, step or task (-1: none), how many there are, and their names (of steps: the steps)."""
        if what == "group":
            names, labels = np.unique(self.frame.groups[self.rows], return_inverse=True)
            return labels, len(names), names
        if what == "task":
            codes = self.frame.words("task").codes[self.rows]
            return codes, int(codes.max(initial=-1)) + 1, np.empty(0)
        steps = self.frame.numbers("step")[self.rows]
        known = np.isfinite(steps)
        names, inverse = np.unique(steps[known], return_inverse=True)
        labels = np.full(len(steps), -1, dtype=np.int64)
        labels[known] = inverse
        return labels, len(names), names

    def _aggregate(self, node: Apply) -> np.ndarray:
        first = node.args[0]
        if isinstance(first, Column) and node.name == "distinct" and _is_words(self.frame, first.name):
            codes = self.frame.words(first.name).codes[self.rows]
            values = [np.where(codes >= 0, codes, np.nan)]
        elif node.name == "quantile":
            values = [self.value(first)]
        else:
            values = [self.value(arg) for arg in node.args]
        over_rows = self.by is not None and domain_of(first) == "rows"
        labels, size = self.by if over_rows and self.by else (np.zeros(len(values[0]), dtype=np.int64), 1)
        if node.name == "quantile":
            q = node.args[1]
            assert isinstance(q, Number)
            return aggregates.quantile(values[0], labels, size, q.value)
        return aggregates.ONE[node.name](*values, labels, size)

    def _window(self, node: Apply) -> np.ndarray:
        labels, size, _ = self.labels("step")
        if size < MIN_STEPS:
            return np.array([np.nan])
        third = max(2, size // 3)
        early, late = (labels >= 0) & (labels < third), labels >= size - third
        wanted = {"early": (early,), "late": (late,), "drift": (late, early)}[node.name]
        found = [_Scope(self.frame, self.rows[mask]).value(node.args[0]) for mask in wanted]
        return found[0] - found[1] if node.name == "drift" else found[0]

    def _each(self, node: Apply) -> np.ndarray:
        if node.name in ("missing", "present"):
            column = node.args[0]
            assert isinstance(column, Column)
            there = _there(self.frame, column.name)[self.rows]
            return (there if node.name == "present" else ~there).astype(float)
        value, *rest = self._aligned(node.args)
        if node.name == "abs":
            return np.abs(value)
        if node.name == "centred":
            labels, size, _ = self.labels("group")
            return value - aggregates.mean(value, labels, size)[labels]
        condition = rest[0]
        return np.where(np.isfinite(condition) & (condition != 0), value, np.nan)

    def _operator(self, node: Apply) -> np.ndarray:
        if len(node.args) == 2 and isinstance(node.args[1], Word):
            column = node.args[0]
            assert isinstance(column, Column)
            codes, values = self.frame.words(column.name)
            same = self.frame.is_word(column.name, node.args[1].value)
            wanted = same if node.name == "==" else ~same
            found = np.where(codes >= 0, wanted, np.nan) if values else np.full(self.frame.rows, np.nan)
            return found[self.rows]
        a, *rest = self._aligned(node.args)
        if node.name == "neg":
            return -a
        if node.name == "not":
            return np.where(np.isnan(a), np.nan, a == 0)
        return _BINARY[node.name](a, *rest)

    def _aligned(self, args: tuple[Node, ...]) -> list[np.ndarray]:
        """Values side by side: where rollouts meet a number that each group has, every rollout meets its own group's."""
        values = [self.value(arg) for arg in args]
        if self.by is None or all(domain_of(arg) == "one" for arg in args):
            return values
        return [
            value[self.by[0]] if domain_of(arg) == "one" and len(value) > 1 else value
            for arg, value in zip(args, values, strict=True)
        ]


def _compare(operator: np.ufunc):
    def compare(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return np.where(np.isnan(a) | np.isnan(b), np.nan, operator(a, b))

    return compare


def _and(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """What is false stays false beside what is unknown (Kleene)."""
    false = (a == 0) | (b == 0)
    return np.where(false, 0.0, np.where(np.isnan(a) | np.isnan(b), np.nan, 1.0))


def _or(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    true = (np.isfinite(a) & (a != 0)) | (np.isfinite(b) & (b != 0))
    return np.where(true, 1.0, np.where(np.isnan(a) | np.isnan(b), np.nan, 0.0))


_BINARY = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "/": lambda a, b: a / np.where(b == 0, np.nan, b),
    "<": _compare(np.less),
    "<=": _compare(np.less_equal),
    ">": _compare(np.greater),
    ">=": _compare(np.greater_equal),
    "==": _compare(np.equal),
    "!=": _compare(np.not_equal),
    "and": _and,
    "or": _or,
}


def _is_words(frame: Frame, name: str) -> bool:
    return name in WORDS or name in frame.words_by_name


def _there(frame: Frame, name: str) -> np.ndarray:
    return frame.words(name).codes >= 0 if _is_words(frame, name) else np.isfinite(frame.numbers(name))
