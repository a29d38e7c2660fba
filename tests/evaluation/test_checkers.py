"""Checkers: what counts as the same answer, and what is said of the first difference."""

import math
import re
import struct
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coevo.evaluation import checkers
from coevo.evaluation.checkers import check_custom, check_text, check_value
from coevo.tasks.types import Checker

EXACT, TOKENS, UNORDERED = Checker(), Checker(name="tokens"), Checker(name="unordered")
FLOATS = Checker(name="floats", rel=1e-6, abs=1e-9)
HUGE = 7**20_000
NAN, INF = math.nan, math.inf

EQUAL = [
    (1, 1),
    (3, 3.0),
    (-0.0, 0.0),
    (HUGE, HUGE),
    (NAN, NAN),
    (INF, INF),
    ([1, 2], (1, 2)),
    ((1, [2, (3,)]), [1, (2, [3])]),
    (np.array([[1, 2], [3, 4]]), [[1, 2], [3, 4]]),
    ([1.0, 2.0], np.array([1, 2])),
    (np.float64(2.5), 2.5),
    (np.bool_(True), True),
    (np.array(7), 7),
    (b"\x00\xff", b"\x00\xff"),
    ("\ud800", "\ud800"),
    ({"a": 1, "b": [2]}, {"b": (2,), "a": 1}),
    ({1, 2}, frozenset({2, 1})),
    ({(1, 2)}, {(1, 2)}),
    (1 + 2j, 1 + 2j),
    (None, None),
    ([], ()),
    ({}, {}),
]
DIFFERENT = [
    (1, 2),
    (True, 1),
    (1, True),
    (0, False),
    ([1, True], [1, 1]),
    (0.1 + 0.2, 0.3),
    (HUGE, HUGE + 1),
    (10**400, INF),
    (NAN, 0.0),
    (0.0, NAN),
    (INF, -INF),
    ("1", 1),
    (b"a", "a"),
    ("a ", "a"),
    ([1, 2], [2, 1]),
    ([1, 2], [1, 2, 3]),
    ([1, 2, 3], [1, 2]),
    ([1, 2], {1, 2}),
    ({1, 2}, [1, 2]),
    ({"a": 1}, {"a": 1, "b": 2}),
    ({"a": 1, "b": 2}, {"a": 1}),
    ({1: 2}, {"1": 2}),
    (None, 0),
    (None, []),
    ([], None),
    ("", None),
    ([[]], []),
    (np.array([1, 2]), [1, 3]),
]


@pytest.mark.parametrize(("got", "expected"), EQUAL, ids=lambda v: repr(v)[:20] if not isinstance(v, int) else "int")
@pytest.mark.parametrize("checker", [EXACT, FLOATS, UNORDERED], ids=lambda c: c.name)
def test_equal_values(checker: Checker, got, expected) -> None:
    assert check_value(checker, got, expected).ok


@pytest.mark.parametrize(
    ("got", "expected"), DIFFERENT, ids=lambda v: repr(v)[:20] if not isinstance(v, int) else "int"
)
def test_different_values_and_a_detail_that_says_how(got, expected) -> None:
    verdict = check_value(EXACT, got, expected)
    assert not verdict.ok
    assert "got " in verdict.detail and "expected " in verdict.detail


def test_the_first_difference_is_located() -> None:
    detail = check_value(EXACT, {"rows": [[1, 2], [3, 5]]}, {"rows": [[1, 2], [3, 4]]}).detail
    assert detail.startswith("at ['rows'][1][1]: got 5, expected 4")
    assert "2 items instead of 3" in check_value(EXACT, [1, 2], [1, 2, 3]).detail
    assert "key 'b' is missing" in check_value(EXACT, {"a": 1}, {"a": 1, "b": 2}).detail
    assert "truth value" in check_value(EXACT, True, 1).detail


@pytest.mark.parametrize(
    ("got", "expected", "ok"),
    [
        (1.0000005, 1.0, True),
        (1.000002, 1.0, False),
        (1e-10, 0.0, True),
        (1e-8, 0.0, False),
        (1, 1.0000000001, True),
        (10**17 + 1, 10**17, False),  # integers are exact under every checker
        (1e17 + 100, 10**17, True),
        (10**400, 1.0, False),
        (1.0, 10**400, False),
        (10**400, 10**400, True),
        (True, 1.0, False),
        (NAN, 1.0, False),
        (1.0, NAN, False),
        (INF, 1e308, False),
        (1e308, INF, False),
        ([0.1 + 0.2, "x"], [0.3, "x"], True),
        ([0.1 + 0.2, "x"], [0.3, "y"], False),
        ({"a": (0.1 + 0.2,)}, {"a": [0.3]}, True),
        (np.array([0.1, 0.2]) * 3, [0.3, 0.6], True),
        (1.0 + 1e-9j, 1.0, True),
        ({0.1 + 0.2}, {0.3}, True),
        ("1.0", 1.0, False),
        (None, 0.0, False),
    ],
)
def test_floats_within_tolerance(got, expected, ok: bool) -> None:
    assert check_value(FLOATS, got, expected).ok is ok


@pytest.mark.parametrize(
    ("got", "expected", "ok"),
    [
        ([3, 1, 2], [1, 2, 3], True),
        ([1, 1, 2], [1, 2, 2], False),
        ([1, 2], [1, 2, 2], False),
        ({1, 2}, [2, 1], True),
        ([[1, 2], [3]], [[3], [1, 2]], True),
        ([[2, 1], [3]], [[3], [1, 2]], False),
        ([0.1 + 0.2, 1.0], [1.0, 0.3], True),
        ([[0.1 + 0.2, 1], [5]], [[5], [0.3, 1]], True),
        ([NAN, 1], [1, NAN], True),
        ([True, 0], [0, 1], False),
        (["b", "a"], ("a", "b"), True),
        ([{"a": 1}, {"b": 2}], [{"b": 2}, {"a": 1}], True),
        ("ab", "ba", False),
        (5, [5], False),
        ([HUGE, 1], [1, HUGE], True),
    ],
)
def test_unordered_is_a_multiset(got, expected, ok: bool) -> None:
    assert check_value(UNORDERED, got, expected).ok is ok


def test_unordered_survives_what_is_long_or_strange() -> None:
    huge = [[HUGE, i] for i in range(150)]
    assert check_value(UNORDERED, huge[::-1], huge).ok
    assert not check_value(UNORDERED, [[HUGE, i + 1] for i in range(300)], [[HUGE + 1, i] for i in range(300)]).ok
    long_double = [np.longdouble(0.5), np.clongdouble(1 + 2j)]
    assert check_value(FLOATS, long_double, [0.5, 1 + 2j]).ok
    assert check_value(UNORDERED, np.array([2, 1], dtype=np.longdouble), [1.0, 2.0]).ok


def test_unordered_needs_a_real_matching_not_a_greedy_one() -> None:
    near = Checker(name="unordered", rel=0, abs=1.0)
    # 1.5 is near both; only one assignment pairs everything
    assert check_value(near, [["x", 1.5], ["x", 2.4]], [["x", 2.0], ["x", 0.6]]).ok
    assert not check_value(near, [["x", 1.5], ["x", 9.0]], [["x", 2.0], ["x", 0.6]]).ok


@pytest.mark.parametrize(
    ("got", "expected", "ok"),
    [
        ("1 2\n3\n", "1 2\n3", True),
        ("1 2  \n3\t\n\n\n", "1 2\n3\n", True),
        ("1 2\r\n3\r\n", "1 2\n3\n", True),
        ("1  2\n", "1 2\n", False),
        (" 1\n", "1\n", False),
        ("1\n\n2\n", "1\n2\n", False),
        ("1\n2\n", "1\n", False),
        ("1\n", "1\n2\n", False),
        ("", "", True),
        ("\n", "", True),
    ],
)
def test_exact_text_ignores_trailing_space_only(got: str, expected: str, ok: bool) -> None:
    verdict = check_text(EXACT, got, expected)
    assert verdict.ok is ok
    assert bool(verdict.detail) is not ok


def test_token_text() -> None:
    assert check_text(TOKENS, " 1\n 2 3", "1 2\n3\n").ok
    assert check_text(TOKENS, "1 2", "1 3").detail == "token 2: got '2', expected '3'"
    assert not check_text(TOKENS, "1.0", "1").ok
    assert not check_text(TOKENS, "12", "1 2").ok
    assert check_text(FLOATS, "x 0.30000000000000004", "x 0.3").ok
    assert not check_text(FLOATS, "x 0.31", "x 0.3").ok
    assert check_text(FLOATS, "3.0", "3").ok
    assert check_text(FLOATS, "nan", "nan").ok
    assert not check_text(FLOATS, "nan", "1").ok
    digits = "9" * 5000
    assert check_text(FLOATS, f"+00{digits}", digits).ok
    assert not check_text(FLOATS, digits[:-1] + "8", digits).ok
    assert check_text(UNORDERED, "b\na \n", "a\nb").ok
    assert not check_text(UNORDERED, "b\nb\n", "a\nb").ok


def test_tokens_of_returned_strings() -> None:
    assert check_value(TOKENS, " a  b\n", "a b").ok
    assert not check_value(TOKENS, "a b c", "a b").ok


def test_tokens_of_long_values_are_compared_to_the_last_digit() -> None:
    big = 10**99
    for wrong, right in (
        (big + 10**50, big),
        (7 * 10**9000, 7 * 10**9000 + 10**8000),
        ([0] * 600_000 + [1] + [0] * 600_000, [0] * 1_200_001),
        (["x" * (1 << 21)], ["x" * (1 << 20) + "y" + "x" * ((1 << 20) - 1)]),
    ):
        assert not check_value(TOKENS, wrong, right).ok
        assert check_value(TOKENS, right, right).ok
    assert check_value(TOKENS, (np.int64(1), [2.5]), "(1, [2.5])").ok


@pytest.mark.parametrize(
    ("got", "expected"),
    [
        ("inf", "1" + "0" * 400),
        ("1e999", "2" + "0" * 400),
        ("1e400", "inf"),
        ("-inf", "inf"),
        ("1_0", "10"),
        ("\uff11\u0660", "10"),
        ("1.0\u0660", "1.00"),
        ("infinity1", "inf"),
    ],
)
def test_text_that_only_looks_like_the_number(got: str, expected: str) -> None:
    assert not check_text(FLOATS, got, expected).ok
    assert check_text(FLOATS, expected, expected).ok


def test_text_of_numbers_in_any_usual_form() -> None:
    for got in ("1e1", "+10.", "1E+01", "10.0000000001", "100e-1", ".1e2"):
        assert check_text(FLOATS, got, "10").ok, got
    assert check_text(FLOATS, "Infinity NAN -INF", "inf nan -inf").ok


def test_unordered_pairs_within_tolerance_even_where_an_exact_pair_is_in_the_way() -> None:
    close = Checker(name="unordered", abs=0.06)
    assert check_value(close, [1.0, 1.05], [1.05, 1.1]).ok
    assert check_value(close, [[1.0], [1.05]], [[1.05], [1.1]]).ok
    assert not check_value(close, [1.0, 1.05], [1.05, 1.2]).ok


def test_an_unordered_answer_made_to_be_slow_is_compared_once_per_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answer j fits the expected items from j on: each search for a partner walks through all that have one."""
    calls = 0

    def counted(*args):
        nonlocal calls
        calls += 1
        return real(*args)

    real = checkers._compare
    monkeypatch.setattr(checkers, "_compare", counted)
    n = 60
    expected = [[float(i)] for i in range(n)]
    got = [[i + 60.5] for i in range(n - 1)] + [[1e9]]
    assert not check_value(Checker(name="unordered", abs=60.5), got, expected).ok
    assert calls <= 4 * 2 * n * n  # two levels; of what is left after exact pairs, and of all


def test_custom_checkers() -> None:
    assert check_custom(lambda o, e, a: o == e + a[0], 5, 2, (3,)).ok
    refused = check_custom(lambda o, e, a: {"ok": False, "feedback": "vertex 3 has no colour"}, [], None, ())
    assert not refused.ok and refused.detail == "vertex 3 has no colour"
    assert not check_custom(lambda o, e, a: len(o) == 2, None, None, ()).ok  # TypeError: the answer's form
    assert "expected form" in check_custom(lambda o, e, a: o[0], [], None, ()).detail
    with pytest.raises(NameError):
        check_custom(lambda o, e, a: undefined_name, 1, 1, ())  # noqa: F821


@pytest.mark.parametrize(
    ("check", "answer"),
    [
        (lambda o, e, a: o == np.arange(3), np.arange(3)),  # three verdicts
        (lambda o, e, a: {"ok": o == np.arange(3)}, np.arange(3)),
        (lambda o, e, a: next(x for x in o if x > 3), []),
        (lambda o, e, a: np.zeros((o, o)).size, 1 << 40),
        (lambda o, e, a: struct.pack("<q", o), 1 << 70),
        (lambda o, e, a: re.compile(o), "("),
        (lambda o, e, a: _depth(10_000), 0),
    ],
)
def test_an_answer_that_trips_a_custom_checker_is_wrong_and_not_unmeasured(check, answer) -> None:
    assert not check_custom(check, answer, None, ()).ok


def _depth(n: int) -> int:
    return n and 1 + _depth(n - 1)


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.binary(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4) | st.tuples(inner, inner) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=12,
)


@settings(max_examples=200, deadline=None)
@given(value=PLAIN, checker=st.sampled_from([EXACT, FLOATS, UNORDERED]))
def test_every_value_equals_itself(value, checker: Checker) -> None:
    assert check_value(checker, value, value).ok


@settings(max_examples=200, deadline=None)
@given(a=PLAIN, b=PLAIN, checker=st.sampled_from([EXACT, FLOATS, UNORDERED, TOKENS]))
def test_total_and_explained(a, b, checker: Checker) -> None:
    verdict = check_value(checker, a, b)
    assert verdict.ok or 0 < len(verdict.detail) < 1200
    if check_value(EXACT, a, b).ok:
        assert verdict.ok  # no checker is stricter than exact


@settings(max_examples=100, deadline=None)
@given(items=st.lists(PLAIN, max_size=6), data=st.data())
def test_unordered_accepts_every_permutation(items, data) -> None:
    assert check_value(UNORDERED, data.draw(st.permutations(items)), items).ok


@settings(max_examples=200, deadline=None)
@given(
    expected=st.floats(-1e6, 1e6),
    got=st.floats(-1e6, 1e6) | st.floats(-1e-8, 1e-8),
    near=st.booleans(),
)
def test_tolerance_is_the_documented_inequality(expected: float, got: float, near: bool) -> None:
    if near:
        got = expected * (1 + got * 1e-12)
    exact_gap, bound = (
        abs(Fraction(got) - Fraction(expected)),
        max(Fraction(1e-9), Fraction(1e-6) * abs(Fraction(expected))),
    )
    if abs(exact_gap - bound) > bound * Fraction(1, 10**9):  # rounding of the gap itself decides at the very edge
        assert check_value(FLOATS, got, expected).ok is (exact_gap <= bound)
