"""Distances between programs: metric properties where they hold, known values, bounds."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coevo.programs import Program
from coevo.trajectories import distances
from coevo.trajectories.distances import (
    DISTANCES,
    combined,
    levenshtein,
    pq_grams,
    profile,
    token_distance,
    tokens,
    tree_distance,
)

SOURCES = [
    "def f(x):\n    return x\n",
    "def f(y):\n    return y\n",
    "def f(x):\n    return x + 1\n",
    "def f(x):\n    total = 0\n    for i in range(x):\n        total += i\n    return total\n",
    "def g(a, b):\n    while b:\n        a, b = b, a % b\n    return a\n",
    "import math\n\n\ndef f(x):\n    return math.sqrt(x) if x > 0 else 0.0\n",
    "def broken(:\n",
    "",
]
OUTCOMES = [(), ("passed", "passed"), ("passed", "wrong"), ("timeout", "wrong"), ("passed",)]

profiles = st.builds(
    lambda source, outcomes, fitness: profile(Program.of(source), behaviour=outcomes, fitness=fitness),
    st.sampled_from(SOURCES),
    st.sampled_from(OUTCOMES[1:4]),
    st.floats(0, 1),
)
words = st.lists(st.sampled_from("abc"), max_size=12)


def table(a: list[str], b: list[str]) -> int:
    """The textbook's dynamic programme."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        before, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (x != y))
    return row[-1]


@given(words, words)
def test_levenshtein_is_the_textbooks(a: list[str], b: list[str]) -> None:
    assert levenshtein(a, b) == table(a, b)


@given(words, words, words)
def test_token_distance_is_a_metric(a: list[str], b: list[str], c: list[str]) -> None:
    ab, bc, ac = token_distance(a, b), token_distance(b, c), token_distance(a, c)
    assert 0 <= ab <= 1
    assert ab == token_distance(b, a)
    assert (ab == 0) == (a == b)
    assert ac <= ab + bc + 1e-12


@pytest.mark.parametrize("name", sorted(DISTANCES))
@given(profiles, profiles, profiles)
@settings(max_examples=60)
def test_every_distance_is_a_pseudo_metric(name, a, b, c) -> None:
    measure = DISTANCES[name]
    ab = measure(a, b)
    assert 0 <= ab <= 1
    assert ab == measure(b, a)
    assert measure(a, a) == 0
    assert measure(a, c) <= ab + measure(b, c) + 1e-12


def test_long_sequences_are_compared_by_runs_and_still_told_apart(monkeypatch) -> None:
    monkeypatch.setattr(distances, "MAX_SYMBOLS", 8)
    a = list("abcabcabcabcabcabcabcabcab")
    b = [*a[:-1], "c"]
    assert token_distance(a, list(a)) == 0
    assert 0 < token_distance(a, b) == token_distance(b, a) < 0.5
    assert token_distance(a, list("xyz" * 9)) > token_distance(a, b)


def test_comments_and_spacing_do_not_count() -> None:
    plain, spaced = Program.of(SOURCES[0]), Program.of("# note\ndef f( x ):\n\n    return  x  # same\n")
    assert token_distance(tokens(plain), tokens(spaced)) == 0
    assert tree_distance(pq_grams(plain), pq_grams(spaced)) == 0


def test_trees_are_blind_to_names_and_values_and_see_structure() -> None:
    grams = [pq_grams(Program.of(source)) for source in SOURCES]
    assert tree_distance(grams[0], grams[1]) == 0
    near, far = tree_distance(grams[0], grams[2]), tree_distance(grams[0], grams[4])
    assert 0 < near < far <= 1
    assert pq_grams(Program.of("x = 1")) == pq_grams(Program.of("y = 2")) != pq_grams(Program.of("y = 'a'"))


def test_pq_grams_of_a_small_tree_by_hand() -> None:
    """Module(Expr(Constant int)): one gram for each of three windows of an only child, twice, and one for the leaf."""
    grams = pq_grams(Program.of("1"))
    assert grams.total() == 3 + 3 + 1
    assert grams[("*", "Module ", "*", "Expr", "*")] == 1
    assert grams[("Expr", "Constant int", "*", "*", "*")] == 1


def test_a_file_that_is_not_python_or_too_large_is_only_equal_or_different(monkeypatch) -> None:
    broken = pq_grams(Program.of("def broken(:"))
    assert tree_distance(broken, pq_grams(Program.of("def broken( : # same"))) == 0
    assert tree_distance(broken, pq_grams(Program.of("x = 1"))) == 1
    monkeypatch.setattr(distances, "MAX_NODES", 5)
    assert [gram[0] for gram in pq_grams(Program.of(SOURCES[3]))] == ["text"]
    assert tree_distance(pq_grams(Program.of("x = [" * 3000)), pq_grams(Program.of("y"))) == 1


def test_files_of_a_program_are_told_apart() -> None:
    one = Program.of({"program.py": "x = 1", "a.py": "y = 2"})
    other = Program.of({"program.py": "x = 1", "b.py": "y = 2"})
    assert tree_distance(pq_grams(one), pq_grams(other)) > 0
    assert token_distance(tokens(one), tokens(other)) > 0


def test_behaviour_counts_tests_that_end_otherwise() -> None:
    def of(*outcomes: str, fitness: float = 0.0):
        return profile(Program.of("x"), behaviour=outcomes, fitness=fitness)

    measure = DISTANCES["behaviour"]
    assert measure(of("passed", "wrong"), of("passed", "crash")) == 0.5
    assert measure(of("passed", "passed"), of("passed")) == 0.5
    assert measure(of(fitness=1.0), of(fitness=0.25)) == 0.75
    assert measure(of(), of()) == 0


def test_the_mean_goes_by_weight() -> None:
    a, b = (profile(Program.of(s), behaviour=("passed",)) for s in (SOURCES[0], SOURCES[4]))
    tree, behaviour = DISTANCES["tree"](a, b), 0.0
    assert combined({"tree": 1.0, "behaviour": 3.0}, a, b) == pytest.approx((tree + 3 * behaviour) / 4)
    assert combined({"tree": 1.0, "token": 0.0}, a, b) == tree
