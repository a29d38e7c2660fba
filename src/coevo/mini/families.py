"""Puzzles that a small model can learn to solve by evolution: a function of several cases, each a small expression.

    def solve(k, n):
        if k == 0:
            return n + 2
        if k == 1:
            return n * n
        return 9 - n

The statement lists expressions that occur, and some that do not, in no order; which one belongs to which case only the tests
tell. Tests are spread over the cases, so fitness counts the cases that are right, and the feedback of a failing test
(`solve(1, 3)`: got 5, expected 9) says which case is wrong and hints at its expression. What there is to learn, in order of
difficulty: change one case and keep the others; change a failing case; take an expression of the list; take one that no right
case has; take the one that agrees with the numbers. None of it is about one puzzle, so it can be carried to others.

Families differ by more than seed. Those of `SEEN` are trained on. Those of `UNSEEN` are for measuring transfer: more cases,
another shape of program, operators and composed expressions that no training puzzle holds.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from coevo.errors import pick

Shape = Literal["chain", "dict"]
Part = Literal["train", "validation", "test"]

PARTS: dict[Part, range] = {"train": range(60), "validation": range(60, 75), "test": range(75, 100)}
"""Which puzzles belong to which part, by a hash of their cases in percent: no two parts share a solution, whatever the seed."""

TOP = 9
"""Arguments n lie in 1..TOP."""

PUBLIC_PER_CASE = 2
HIDDEN_PER_CASE = 4


@dataclass(frozen=True)
class Expression:
    """A small expression of n: its text, and what it is worth."""

    text: str
    at: Callable[[int], int]


COMMON = (
    Expression("n + 2", lambda n: n + 2),
    Expression("n + 5", lambda n: n + 5),
    Expression("n - 1", lambda n: n - 1),
    Expression("n - 4", lambda n: n - 4),
    Expression("n * 2", lambda n: n * 2),
    Expression("n * 3", lambda n: n * 3),
    Expression("n * n", lambda n: n * n),
    Expression("9 - n", lambda n: 9 - n),
    Expression("n // 2", lambda n: n // 2),
    Expression("n % 3", lambda n: n % 3),
)
"""What training puzzles are made of."""

RARE = (
    Expression("n + 9", lambda n: n + 9),
    Expression("n - 7", lambda n: n - 7),
    Expression("n * 5", lambda n: n * 5),
    Expression("20 - n", lambda n: 20 - n),
    Expression("-n", lambda n: -n),
    Expression("n * n + 1", lambda n: n * n + 1),
    Expression("n * 2 - 3", lambda n: n * 2 - 3),
    Expression("abs(n - 5)", lambda n: abs(n - 5)),
)
"""Operators and nestings that no training puzzle holds."""

EXPRESSIONS: dict[str, Expression] = {e.text: e for e in (*COMMON, *RARE)}


@dataclass(frozen=True)
class Family:
    """Puzzles of one kind."""

    name: str
    about: str
    cases: int
    shape: Shape = "chain"
    pool: tuple[Expression, ...] = COMMON
    distractors: int = 2
    """Listed expressions that no case has."""


SEEN: dict[str, Family] = {
    f.name: f
    for f in (
        Family("chain4", "a chain of 4 ifs", 4),
        Family("chain5", "a chain of 5 ifs", 5),
        Family("chain6", "a chain of 6 ifs", 6, distractors=1),
    )
}
"""In distribution: what policies are trained on."""

UNSEEN: dict[str, Family] = {
    f.name: f
    for f in (
        Family("chain8", "more cases than any training puzzle", 8, distractors=1),
        Family("dict5", "another shape: a dict indexed by k", 5, "dict"),
        Family("rare5", "operators and nestings that no training puzzle holds", 5, pool=RARE),
        Family("wide4", "half of what is listed leads astray", 4, pool=(*COMMON, *RARE[:2]), distractors=4),
    )
}
"""Out of distribution: measured, never trained on."""

MOST_CASES = max(family.cases for family in (*SEEN.values(), *UNSEEN.values()))


@dataclass(frozen=True)
class Puzzle:
    """One puzzle: the expression of each case, those that the statement lists, the start, and the inputs of its tests."""

    family: Family
    cases: tuple[Expression, ...]
    listed: tuple[Expression, ...]
    start: tuple[Expression, ...]
    public: tuple[tuple[int, int], ...]
    """Arguments (k, n), in no order of cases."""
    hidden: tuple[tuple[int, int], ...]

    @property
    def statement(self) -> str:
        return statement(len(self.cases), self.listed)

    def source(self, cases: Sequence[Expression]) -> str:
        """The program with these cases."""
        return source(self.family.shape, [case.text for case in cases])

    def expected(self, k: int, n: int) -> int:
        return self.cases[k].at(n)


def statement(cases: int, listed: Sequence[Expression]) -> str:
    """What a model is told of a puzzle."""
    return (
        f"Write solve(k, n) for whole numbers. It has {cases} cases, k = 0 to {cases - 1}.\n"
        f"Each case is one of: {'; '.join(e.text for e in listed)}."
    )


def source(shape: Shape, cases: Sequence[str]) -> str:
    """A program of this shape; the last case of a chain needs no condition."""
    if shape == "dict":
        items = "".join(f"        {k}: {text},\n" for k, text in enumerate(cases))
        return f"def solve(k, n):\n    return {{\n{items}    }}[k]\n"
    *first, last = cases
    ifs = "".join(f"    if k == {k}:\n        return {text}\n" for k, text in enumerate(first))
    return f"def solve(k, n):\n{ifs}    return {last}\n"


def part_of(cases: Sequence[Expression]) -> Part:
    """The part that puzzles with these cases belong to, in every family and under every seed."""
    digest = hashlib.sha256("; ".join(e.text for e in cases).encode()).digest()
    percent = int.from_bytes(digest[:4], "big") % 100
    return next(part for part, span in PARTS.items() if percent in span)


def family_named(name: str) -> Family:
    """By name; an unknown one is a `ConfigError` that says which there are."""
    return pick(name, {**SEEN, **UNSEEN}, kind="mini family")


def draw_puzzle(family: Family, part: Part, rng: random.Random) -> Puzzle:
    """A puzzle of the family whose solution belongs to `part`."""
    while True:
        cases = tuple(rng.sample(family.pool, family.cases))
        if part_of(cases) == part:
            break
    others = [e for e in family.pool if e not in cases]
    listed = [*cases, *rng.sample(others, min(family.distractors, len(others)))]
    rng.shuffle(listed)
    public = _inputs(cases, listed, PUBLIC_PER_CASE, frozenset(), rng)
    hidden = _inputs(cases, listed, HIDDEN_PER_CASE, frozenset(public), rng)
    return Puzzle(family, cases, tuple(listed), draw_start(cases, listed, rng), public, hidden)


def draw_start(cases: Sequence[Expression], listed: Sequence[Expression], rng: random.Random) -> tuple[Expression, ...]:
    """A start that is partly right: about a quarter of the cases, never all but one or more."""
    right = set(rng.sample(range(len(cases)), rng.randint(0, max(1, len(cases) // 2 - 1))))
    return tuple(
        case if k in right else rng.choice([e for e in listed if e is not case]) for k, case in enumerate(cases)
    )


def _inputs(
    cases: Sequence[Expression],
    listed: Sequence[Expression],
    per_case: int,
    used: frozenset[tuple[int, int]],
    rng: random.Random,
) -> tuple[tuple[int, int], ...]:
    """Arguments for `per_case` tests of every case that tell its expression from as many listed ones as can be."""
    found: list[tuple[int, int]] = []
    for k, case in enumerate(cases):
        numbers = [n for n in range(1, TOP + 1) if (k, n) not in used]
        drawn = rng.sample(numbers, min(len(numbers), 2 * per_case))
        drawn.sort(key=lambda n: sum(e is not case and e.at(n) == case.at(n) for e in listed))
        found += [(k, n) for n in drawn[:per_case]]
    rng.shuffle(found)
    return tuple(found)
