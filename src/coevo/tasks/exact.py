"""Exact arithmetic for scorers: what is certified here is true of the real numbers, not of floating point.

Every finite float is a whole number over a power of two. A scorer turns a candidate's floats into such integers
(`scaled`), decides in integers with no slack at all, and rounds only the final value, towards the worse side
(`round_down`, `round_up`). So a score can be less than what a candidate claims, never more than what is proved.

An answer that breaks a rule raises `Infeasible`; its message names the place and the amount, for feedback.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import combinations
from math import isqrt
from typing import Any, NamedTuple

Number = int | float
"""An entry of a checked answer: a finite float or an int, at most `LARGEST` in size. Never a bool."""

LARGEST = 10**100
"""So large that no sensible answer is refused, and that no product of a few entries leaves the range of floats."""


class Infeasible(ValueError):
    """An answer that breaks a rule of its task. The message is feedback: it names the place and the amount."""


# --- Reading answers ------------------------------------------------------------------------------------------


def listed(value: Any, what: str) -> list[Any]:
    """`value` as a list: a list, tuple or numpy array of one dimension or more; anything else is infeasible."""
    if hasattr(value, "tolist") and getattr(value, "shape", ()) != ():
        value = value.tolist()
    if not isinstance(value, list | tuple):
        raise Infeasible(f"{what} must be a list, not {kind_of(value)}")
    return list(value)


def number(value: Any, what: str) -> Number:
    """`value` as a finite int or float, taken out of a numpy scalar if need be."""
    if hasattr(value, "item") and getattr(value, "shape", None) == ():
        value = value.item()
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Infeasible(f"{what} must be a number, not {kind_of(value)}")
    if isinstance(value, float) and not math.isfinite(value):
        raise Infeasible(f"{what} is {value}; only finite numbers count")
    if not -LARGEST <= value <= LARGEST:
        size = shown(value) if isinstance(value, int) else repr(value)
        raise Infeasible(f"{what} is {size}; numbers beyond 1e100 are not accepted")
    return value


def integer(value: Any, what: str, *, low: int, high: int) -> int:
    """`value` as an int in low..high. A float is refused, even a whole one."""
    value = number(value, what)
    if isinstance(value, float):
        raise Infeasible(f"{what} must be an integer, not the float {value!r}")
    if not low <= value <= high:
        raise Infeasible(f"{what} is {shown(value)}; it must be in {low}..{high}")
    return value


def vector(value: Any, length: int, what: str) -> list[Number]:
    """`value` as `length` finite numbers."""
    items = listed(value, what)
    if len(items) != length:
        raise Infeasible(f"{what} must have {length} entries, not {len(items)}")
    return [number(item, f"{what}[{i}]") for i, item in enumerate(items)]


def matrix(value: Any, rows: int, columns: int, what: str) -> list[list[Number]]:
    """`value` as `rows` lists of `columns` finite numbers."""
    items = listed(value, what)
    if len(items) != rows:
        raise Infeasible(f"{what} must have {rows} rows, not {len(items)}")
    return [vector(item, columns, f"{what}[{i}]") for i, item in enumerate(items)]


def kind_of(value: Any) -> str:
    """A short description of a value that was refused."""
    if value is None:
        return "None"
    if isinstance(value, bool | str | complex):
        return f"the {type(value).__name__} {value!r:.40}"
    return f"a {type(value).__name__}"


def shown(value: int) -> str:
    """An integer as text, shortened; never trips over Python's limit on the digits of an int."""
    if value.bit_length() > 128:
        return f"an integer of {value.bit_length()} bits"
    return str(value)


# --- Integers and roundings -----------------------------------------------------------------------------------


def scaled(numbers: Iterable[Number]) -> tuple[list[int], int]:
    """Integers `a` and the least `k` with numbers[i] == a[i] / 2**k, exactly."""
    ratios = [x.as_integer_ratio() for x in numbers]
    k = max((d.bit_length() - 1 for _, d in ratios), default=0)
    return [n << (k - d.bit_length() + 1) for n, d in ratios], k


def scaled_rows(rows: Sequence[Sequence[Number]]) -> tuple[list[tuple[int, ...]], int]:
    """`scaled` of a matrix: rows of integers over one common 2**k."""
    flat, k = scaled(x for row in rows for x in row)
    width = len(rows[0]) if rows else 0
    return [tuple(flat[i : i + width]) for i in range(0, len(flat), width)] if width else [], k


def round_down(value: Fraction) -> float:
    """The largest float that is not above `value`."""
    near = _nearest(value)
    return math.nextafter(near, -math.inf) if near > value else near


def round_up(value: Fraction) -> float:
    """The smallest float that is not below `value` (inf past the largest float)."""
    return 0.0 - round_down(-value)


def _nearest(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


# --- Circles in the unit square -------------------------------------------------------------------------------


class Packing(NamedTuple):
    """Circles proved to lie in the unit square without overlap, after all radii were reduced by `shrink`."""

    total: Fraction
    """Sum of the reduced radii: the certified value."""
    claimed: Fraction
    """Sum of the radii as given."""
    shrink: Fraction
    """Least common reduction, on the grid of the given numbers, halved; 0 for a packing valid as given."""
    tight: str
    """The violation that asked for that much: which pair, or which wall, and by how much. Empty if there is none."""


def shrink_circles(circles: Sequence[Sequence[Number]]) -> Packing:
    """Certify rows (x, y, r) as disjoint circles in [0, 1]^2, shrinking all radii alike by as little as possible.

    In units of 2**-k all inputs are integers, and for integers s >= 0 and m: s <= sqrt(m) exactly when
    s <= isqrt(m). So the test r_i + r_j <= distance is exact without a tolerance, and so is the amount missing.

    A circle smaller than the reduction becomes a point; a point, too, must not lie inside another circle.

    Raises:
        Infeasible: a centre outside the square, or a negative radius.
    """
    rows, k = scaled_rows(circles)
    rows = [(2 * x, 2 * y, 2 * r) for x, y, r in rows]  # one more bit, so that half an overlap is an integer
    one = 1 << (k + 1)
    for i, (x, y, r) in enumerate(rows):
        if r < 0:
            raise Infeasible(f"circle {i} has the negative radius {circles[i][2]!r}")
        if not (0 <= x <= one and 0 <= y <= one):
            raise Infeasible(f"the centre of circle {i}, ({circles[i][0]!r}, {circles[i][1]!r}), is outside the square")
    shrink, tight = _least_shrink(rows, one)
    total = sum(max(r - shrink, 0) for _, _, r in rows)
    claimed = sum(r for _, _, r in rows)
    return Packing(Fraction(total, one), Fraction(claimed, one), Fraction(shrink, one), tight)


def _least_shrink(rows: Sequence[tuple[int, ...]], one: int) -> tuple[int, str]:
    """The least common amount to take off every radius (stopping at 0), and the wall or pair that needs it."""
    shrink, tight = 0, ""
    for i, (x, y, r) in enumerate(rows):
        over = r - min(x, one - x, y, one - y)
        if over > shrink:
            shrink, tight = over, f"circle {i} sticks out of the square by {float(Fraction(over, one)):.3g}"
    for (i, (x, y, r)), (j, (u, v, s)) in combinations(enumerate(rows), 2):
        reach = max(r - shrink, 0) + max(s - shrink, 0)
        squared = (x - u) ** 2 + (y - v) ** 2
        if reach * reach > squared:
            over = r + s - isqrt(squared)
            half = (over + 1) // 2
            shrink = half if half <= min(r, s) else max(r, s) - isqrt(squared)
            tight = f"circles {i} and {j} overlap by {float(Fraction(over, one)):.3g}"
    return shrink, tight


# --- Points ---------------------------------------------------------------------------------------------------


class Ratio(NamedTuple):
    """Largest over smallest squared distance of a set of points, and where both occur."""

    value: Fraction
    closest: tuple[int, int]
    farthest: tuple[int, int]


def distance_ratio(points: Sequence[Sequence[Number]]) -> Ratio:
    """(largest distance / smallest distance)^2 over all pairs, exactly. Two equal points are infeasible."""
    rows, _ = scaled_rows(points)
    squares = {
        (i, j): sum((a - b) ** 2 for a, b in zip(p, q, strict=True))
        for (i, p), (j, q) in combinations(enumerate(rows), 2)
    }
    closest, farthest = min(squares, key=squares.__getitem__), max(squares, key=squares.__getitem__)
    if squares[closest] == 0:
        raise Infeasible(f"points {closest[0]} and {closest[1]} are the same")
    return Ratio(Fraction(squares[farthest], squares[closest]), closest, farthest)


def doubled_area(p: Sequence[int], q: Sequence[int], r: Sequence[int]) -> int:
    """Twice the signed area of the triangle p, q, r (positive when counterclockwise)."""
    return (q[0] - p[0]) * (r[1] - p[1]) - (q[1] - p[1]) * (r[0] - p[0])


def smallest_triangle(points: Sequence[Sequence[int]]) -> tuple[int, tuple[int, int, int]]:
    """Twice the smallest area over all triples of points with integer coordinates, and the triple."""
    best, where = -1, (0, 0, 0)
    for i, j, k in combinations(range(len(points)), 3):
        area = abs(doubled_area(points[i], points[j], points[k]))
        if best < 0 or area < best:
            best, where = area, (i, j, k)
    return best, where


def triangle_shrink(points: Sequence[Sequence[int]], one: int) -> tuple[Fraction, str]:
    """Largest factor <= 1 that brings points into the triangle (0,0), (1,0), (0,1) by scaling about its centroid.

    Coordinates are integers in units of 1 / `one`. Also says which point asked for it, and by how much it was outside.
    """
    factor, where = Fraction(1), ""
    for i, (x, y) in enumerate(points):
        weight = min(x, y, one - x - y)  # the smallest barycentric coordinate, times `one`
        if weight < 0 and Fraction(one, one - 3 * weight) < factor:
            factor = Fraction(one, one - 3 * weight)
            where = f"point {i} is outside the triangle by {float(Fraction(-weight, one)):.3g}"
    return factor, where


def doubled_hull_area(points: Sequence[Sequence[int]]) -> int:
    """Twice the area of the convex hull of points with integer coordinates (Andrew's monotone chain)."""
    order = sorted({(p[0], p[1]) for p in points})
    if len(order) < 3:
        return 0

    def chain(path: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
        hull: list[tuple[int, int]] = []
        for p in path:
            while len(hull) > 1 and doubled_area(hull[-2], hull[-1], p) <= 0:
                hull.pop()
            hull.append(p)
        return hull[:-1]

    hull = chain(order) + chain(reversed(order))
    return sum(p[0] * q[1] - p[1] * q[0] for p, q in zip(hull, hull[1:] + hull[:1], strict=True))


# --- Step functions -------------------------------------------------------------------------------------------


def products(a: Sequence[int], b: Sequence[int]) -> list[int]:
    """Coefficients of the product of two polynomials with non-negative integer coefficients, exactly.

    Kronecker substitution: each coefficient gets a slot of bytes wide enough for any sum, and one
    multiplication of long integers does the rest.
    """
    if min(min(a, default=0), min(b, default=0)) < 0:
        raise ValueError("products needs non-negative coefficients")
    bits = max(a, default=0).bit_length() + max(b, default=0).bit_length() + min(len(a), len(b)).bit_length()
    slot = bits // 8 + 1
    packed = [int.from_bytes(b"".join(x.to_bytes(slot, "little") for x in p), "little") for p in (a, b)]
    length = max(len(a) + len(b) - 1, 0)
    raw = (packed[0] * packed[1]).to_bytes(slot * (length + 1), "little")
    return [int.from_bytes(raw[i * slot : (i + 1) * slot], "little") for i in range(length)]


def on_grid(values: Sequence[Number], bits: int, top: int | None = None) -> list[int]:
    """Each value over `top` (default: the largest), in units of 2**-bits, rounded down. Values must not be negative."""
    exact, k = scaled(values)
    unit = max(exact) if top is None else top << k
    if unit <= 0:
        raise ValueError("on_grid needs a positive unit")
    return [(x << bits) // unit for x in exact]
