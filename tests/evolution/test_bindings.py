"""Names read without a value: what operators do not leave in a child."""

from __future__ import annotations

import ast
import random

import pytest

from coevo.evolution.bindings import more_unbound, unbound
from coevo.evolution.mutation import mutate
from coevo.evolution.splicing import splice
from coevo.tasks import load_task

FINE = """\
import os.path as path, math
from collections import deque

A = 1
B: float = A + 1


class Shape:
    side = 2
    area = side**2

    def grown(self, by=B):
        return later(self.side + by)


def later(x, *rest, key=None, **named):
    global counter
    counter = 0
    total = 0
    for i, (a, b) in enumerate(rest):
        total += i * a + b
    squares = {j: [k for k in range(j) if k] for j in range(x)}
    if (size := len(squares)) > 1:
        total += size
    try:
        found = math.sqrt(total)
    except ValueError as error:
        return str(error), named, key
    with open(path.devnull) as file:
        file.read()

    def inner(y):
        return y + after + total

    after = 3
    match rest:
        case [first, *others]:
            return first, others
        case {"a": value, **more}:
            return value, more
    return (lambda z: z + inner(z))(found), deque, counter, __name__
"""


def faults(text: str) -> set[tuple[str, str]]:
    return set(unbound(ast.parse(text)))


def test_nothing_is_missing_in_sound_programs() -> None:
    assert faults(FINE) == set()
    for name in ("circle_packing", "sorting_network", "bin_packing_weibull", "edit_distance"):
        assert faults(load_task(name).start.source) == set()


@pytest.mark.parametrize(
    ("text", "missing"),
    [
        ("x = y", ("", "y")),
        ("x += 1", ("", "x")),
        ("print(x)\nx = 1", ("", "x")),
        ("def f():\n    return n", ("f", "n")),
        ("def f():\n    x = x + 1\n    return x", ("f", "x")),
        ("x = 1\ndef f():\n    y = x\n    x = 2\n    return y", ("f", "x")),
        ("def f(a):\n    for i in range(i):\n        a += i\n    return a", ("f", "i")),
        ("def f(a):\n    return [i for i in range(a) if j]", ("f", "j")),
        ("def f(a=b):\n    return a", ("", "b")),
        ("def f():\n    def g():\n        return h\n    return g()", ("g", "h")),
        ("f = lambda a: a + b", ("lambda", "b")),
    ],
)
def test_what_python_cannot_find_is_found_first(text: str, missing: tuple[str, str]) -> None:
    assert faults(text) == {missing}


def test_only_what_is_new_in_a_child_counts() -> None:
    parent = "a = missing"
    assert not more_unbound(parent, "a = missing + 1")
    assert more_unbound(parent, "a = lost")
    assert not more_unbound(parent, "a = (")


def test_a_tree_too_deep_to_walk_is_not_judged() -> None:
    node: ast.expr = ast.Name("lost", ast.Load())
    for _ in range(5000):
        node = ast.UnaryOp(ast.USub(), node)
    assert unbound(ast.Module([ast.Expr(node)], [])) == frozenset()


@pytest.mark.parametrize("name", ["circle_packing", "erdos_overlap", "sorting_network"])
def test_operators_leave_no_name_without_a_value(name: str) -> None:
    start = load_task(name).start
    line = [start]
    for seed in range(60):
        rng = random.Random(seed)
        child = mutate(rng.choice(line), rng) if seed % 2 else splice(rng.choice(line), rng.choice(line), rng)
        if child.program is not None:
            assert faults(child.program.source) == set(), child.program.source
            line.append(child.program)
    assert len(line) > 30
