"""Exact helpers against slow checks in fractions, written here and independent of them."""

from __future__ import annotations

import math
import random
from fractions import Fraction
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coevo.tasks import exact
from coevo.tasks.exact import Infeasible

finite = st.floats(allow_nan=False, allow_infinity=False)
unit = st.one_of(
    st.floats(0, 1),
    st.sampled_from([0.0, 0.25, 0.5, 0.75, 1.0]),
    st.integers(0, 16).map(lambda k: k / 16),
)
radius = st.one_of(st.floats(0, 0.6), st.integers(0, 8).map(lambda k: k / 16), st.sampled_from([0.0, 1e-300, 5e-324]))
circles = st.lists(st.tuples(unit, unit, radius), min_size=1, max_size=6)


def violation(rows: list[tuple[Fraction, Fraction, Fraction]]) -> str:
    """What is wrong with circles in the unit square, decided in fractions; empty if nothing is."""
    for i, (x, y, r) in enumerate(rows):
        if r < 0 or x - r < 0 or y - r < 0 or x + r > 1 or y + r > 1:
            return f"circle {i}"
    for (i, p), (j, q) in combinations(enumerate(rows), 2):
        if (p[0] - q[0]) ** 2 + (p[1] - q[1]) ** 2 < (p[2] + q[2]) ** 2:
            return f"circles {i} and {j}"
    return ""


def reduced(rows: list[tuple[float, float, float]], by: Fraction) -> list[tuple[Fraction, Fraction, Fraction]]:
    return [(Fraction(x), Fraction(y), max(Fraction(r) - by, Fraction(0))) for x, y, r in rows]


# --- Numbers --------------------------------------------------------------------------------------------------


@given(st.lists(st.one_of(finite, st.integers(-(10**30), 10**30)), max_size=6))
def test_scaled_is_exact(values: list[float]) -> None:
    integers, k = exact.scaled(values)
    assert [Fraction(a, 2**k) for a in integers] == [Fraction(x) for x in values]


@given(st.fractions(max_denominator=10**30))
def test_rounding_is_directed_and_tight(value: Fraction) -> None:
    low, high = exact.round_down(value), exact.round_up(value)
    assert Fraction(low) <= value <= Fraction(high)
    assert high == low or math.nextafter(low, math.inf) == high


def test_rounding_past_the_largest_float() -> None:
    assert exact.round_down(Fraction(10**400)) == 1.7976931348623157e308
    assert exact.round_up(Fraction(10**400)) == math.inf
    assert math.copysign(1, exact.round_up(Fraction(0))) == 1


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "must be a number, not None"),
        (True, "the bool True"),
        ("0.5", "the str '0.5'"),
        (1 + 2j, "the complex"),
        ([0.5], "a list"),
        (math.nan, "nan; only finite"),
        (math.inf, "inf; only finite"),
        (np.float64("nan"), "nan; only finite"),
        (np.bool_(True), "the bool True"),
        (10**400, "integer of 1329 bits; numbers beyond 1e100"),
        (-1.1e100, "-1.1e+100; numbers beyond 1e100"),
    ],
)
def test_what_is_not_a_number_is_refused_by_name(value: object, message: str) -> None:
    with pytest.raises(Infeasible, match=r"^x\[1\] ") as caught:
        exact.vector([0.5, value], 2, "x")
    assert message in str(caught.value)


@pytest.mark.parametrize("value", [None, "ab", {"a": 1}, {0.1, 0.2}, 3, np.float64(1.0), np.array(2.0)])
def test_what_is_not_a_list_is_refused(value: object) -> None:
    with pytest.raises(Infeasible, match="answer must be a list"):
        exact.matrix(value, 2, 1, "answer")


def test_shapes_are_named() -> None:
    with pytest.raises(Infeasible, match="answer must have 2 rows, not 1"):
        exact.matrix([[1.0]], 2, 1, "answer")
    with pytest.raises(Infeasible, match=r"answer\[1\] must have 1 entries, not 2"):
        exact.matrix(((1.0,), (1.0, 2.0)), 2, 1, "answer")
    assert exact.matrix(np.ones((2, 1), dtype=np.float32), 2, 1, "answer") == [[1.0], [1.0]]
    assert exact.matrix([np.array([1.5]), (np.int8(2),)], 2, 1, "answer") == [[1.5], [2]]


def test_integers() -> None:
    assert exact.integer(np.int64(3), "b", low=0, high=3) == 3
    with pytest.raises(Infeasible, match=r"b must be an integer, not the float 3\.0"):
        exact.integer(3.0, "b", low=0, high=9)
    with pytest.raises(Infeasible, match=r"b is 4; it must be in 0\.\.3"):
        exact.integer(4, "b", low=0, high=3)
    with pytest.raises(Infeasible, match="an integer of 1000 bits"):
        exact.integer(1 << 999, "b", low=0, high=3)


# --- Circles --------------------------------------------------------------------------------------------------


@given(circles)
@settings(max_examples=400, deadline=None)
def test_a_shrunk_packing_is_valid_and_not_shrunk_more_than_needed(rows: list[tuple[float, float, float]]) -> None:
    packing = exact.shrink_circles(rows)
    after = reduced(rows, packing.shrink)
    assert violation(after) == ""
    assert packing.total == sum(r for _, _, r in after)
    assert packing.claimed == sum(Fraction(r) for _, _, r in rows)
    assert (packing.shrink == 0) == (violation(reduced(rows, Fraction(0))) == "") == (packing.tight == "")
    if packing.shrink:
        _, k = exact.scaled(x for row in rows for x in row)
        assert violation(reduced(rows, packing.shrink - Fraction(1, 2 ** (k + 1)))) != ""


@given(circles)
@settings(max_examples=200, deadline=None)
def test_no_packing_is_credited_beyond_the_area_bound(rows: list[tuple[float, float, float]]) -> None:
    total = exact.shrink_circles(rows).total
    assert total**2 * Fraction(314159, 100000) <= len(rows)  # Cauchy-Schwarz: (sum r)^2 <= n sum r^2 <= n / pi


def test_touching_circles_are_accepted_and_one_rounding_more_is_not() -> None:
    four = [(x, y, 0.25) for x in (0.25, 0.75) for y in (0.25, 0.75)]
    assert exact.shrink_circles(four) == (1, 1, 0, "")
    pythagoras = [(0.25, 0.25, 0.25), (0.25 + 3 / 16, 0.25 + 4 / 16, 1 / 16)]
    assert exact.shrink_circles(pythagoras).shrink == 0
    more = math.nextafter(1 / 16, 1)
    packing = exact.shrink_circles([pythagoras[0], (*pythagoras[1][:2], more)])
    assert packing.shrink == (Fraction(more) - Fraction(1, 16)) / 2
    assert packing.tight.startswith("circles 0 and 1 overlap by 1.39e-17")


def test_a_wall_is_named() -> None:
    packing = exact.shrink_circles([(0.5, 0.5, 0.1), (0.875, 0.25, 0.25)])
    assert packing.shrink == Fraction(1, 8) and packing.tight == "circle 1 sticks out of the square by 0.125"
    assert packing.total == Fraction(1, 8)  # circle 0 became a point


def test_one_circle_inside_another_is_cured_by_the_larger_one() -> None:
    packing = exact.shrink_circles([(0.5, 0.5, 0.5), (0.75, 0.5, 0.0)])
    assert packing.shrink == Fraction(1, 4) and packing.total == Fraction(1, 4)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ((0.5, 0.5, -1e-300), "circle 1 has the negative radius -1e-300"),
        ((1.0000000000000002, 0.5, 0.0), r"the centre of circle 1, \(1.0000000000000002, 0.5\), is outside"),
        ((0.5, -5e-324, 0.0), r"the centre of circle 1, \(0.5, -5e-324\), is outside"),
    ],
)
def test_impossible_circles_are_refused(row: tuple[float, float, float], message: str) -> None:
    with pytest.raises(Infeasible, match=message):
        exact.shrink_circles([(0.5, 0.5, 0.1), row])


# --- Points ---------------------------------------------------------------------------------------------------

points = st.lists(st.tuples(st.floats(-4, 4), st.floats(-4, 4)), min_size=3, max_size=7)


@given(points)
def test_distance_ratio_agrees_with_fractions(rows: list[tuple[float, float]]) -> None:
    squares = [
        sum((Fraction(a) - Fraction(b)) ** 2 for a, b in zip(p, q, strict=True)) for p, q in combinations(rows, 2)
    ]
    if min(squares) == 0:
        with pytest.raises(Infeasible, match=r"points \d and \d are the same"):
            exact.distance_ratio(rows)
    else:
        assert exact.distance_ratio(rows).value == max(squares) / min(squares)


def test_a_square_has_ratio_two() -> None:
    ratio = exact.distance_ratio([(0.0, 0.0), (3.0, 0.0), (3.0, 3.0), (0.0, 3.0)])
    assert ratio.value == 2 and ratio.closest == (0, 1) and ratio.farthest == (0, 2)


@given(points)
def test_smallest_triangle_agrees_with_fractions(rows: list[tuple[float, float]]) -> None:
    integers, k = exact.scaled_rows(rows)
    area, triple = exact.smallest_triangle(integers)
    areas = {}
    for i, j, m in combinations(range(len(rows)), 3):
        (a, b), (c, d), (e, f) = ([Fraction(x) for x in rows[t]] for t in (i, j, m))
        areas[i, j, m] = abs(a * (d - f) + c * (f - b) + e * (b - d))
    assert Fraction(area, 4**k) == min(areas.values()) == areas[triple]


@given(points)
def test_the_hull_contains_every_triangle_and_no_more(rows: list[tuple[float, float]]) -> None:
    integers, _ = exact.scaled_rows(rows)
    hull = exact.doubled_hull_area(integers)
    fan = max(abs(exact.doubled_area(*triple)) for triple in combinations(integers, 3))
    box = 1
    for axis in (0, 1):
        box *= max(p[axis] for p in integers) - min(p[axis] for p in integers)
    assert fan <= hull <= 2 * box
    if len(rows) == 3:
        assert hull == fan


def test_hull_of_a_square_with_points_on_its_sides() -> None:
    assert exact.doubled_hull_area([(0, 0), (2, 0), (2, 2), (0, 2), (1, 0), (1, 1), (0, 0)]) == 8
    assert exact.doubled_hull_area([(0, 0), (1, 1), (5, 5)]) == 0


@given(st.lists(st.tuples(st.floats(-3, 3), st.floats(-3, 3)), min_size=1, max_size=5))
def test_points_scaled_into_the_triangle_lie_in_it_and_one_touches(rows: list[tuple[float, float]]) -> None:
    integers, k = exact.scaled_rows(rows)
    factor, where = exact.triangle_shrink(integers, 1 << k)
    third = Fraction(1, 3)
    moved = [[third + factor * (Fraction(v) - third) for v in row] for row in rows]
    weights = [min(x, y, 1 - x - y) for x, y in moved]
    assert 0 < factor <= 1 and min(weights) >= 0
    assert (factor < 1) == bool(where)
    if factor < 1:
        assert min(weights) == 0


# --- Step functions -------------------------------------------------------------------------------------------

naturals = st.lists(st.integers(0, 1 << 130), max_size=7)


@given(naturals, naturals)
def test_products_agree_with_the_schoolbook(a: list[int], b: list[int]) -> None:
    expected = [0] * max(len(a) + len(b) - 1, 0)
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            expected[i + j] += x * y
    if not a or not b:
        expected = [0] * len(expected)
    assert exact.products(a, b) == expected


def test_products_of_long_sequences() -> None:
    rng = random.Random(5)
    a, b = ([rng.getrandbits(60) for _ in range(300)] for _ in range(2))
    found = exact.products(a, b)
    for k in (0, 1, 299, 300, 598):
        assert found[k] == sum(a[i] * b[k - i] for i in range(300) if 0 <= k - i < 300)
    with pytest.raises(ValueError, match="non-negative"):
        exact.products([1, -1], [1])


@given(st.lists(st.floats(0, 1e300), min_size=1, max_size=6).filter(any))
def test_on_grid_rounds_down_by_less_than_a_unit(values: list[float]) -> None:
    top = Fraction(max(values))
    for x, h in zip(exact.on_grid(values, 60), values, strict=True):
        assert 0 <= Fraction(h) / top * 2**60 - x < 1
