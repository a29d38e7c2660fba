"""Quantiles of Student's t. `scipy.special` has them, too, and takes longer to import than most diagnoses take altogether."""

from __future__ import annotations

import math
from functools import lru_cache
from statistics import NormalDist

_TINY = 1e-300


@lru_cache(maxsize=4096)
def quantile(degrees: float, level: float) -> float:
    """Where a t of `degrees` of freedom (positive, not necessarily whole) lies below with probability `level`, to 11 digits or more: Newton's
    steps from the quantile's expansion, which is exact enough by itself where degrees are many. For levels of up to 0.9999.
    """
    if level == 0.5:
        return 0.0
    if level < 0.5:
        return -quantile(degrees, 1 - level)
    t = _expanded(degrees, NormalDist().inv_cdf(level))
    if degrees > 500:
        return t
    scale = math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2) - math.log(degrees * math.pi) / 2
    for _ in range(200):
        density = math.exp(scale - (degrees + 1) / 2 * math.log1p(t * t / degrees))
        new = t + (level - _below(t, degrees)) / density
        new = new if new > 0 else t / 2
        if abs(new - t) <= 1e-13 * abs(t):
            return new
        t = new
    return t


def _expanded(n: float, z: float) -> float:
    """From the normal quantile `z`, in powers of 1 / n (Abramowitz and Stegun 26.7.5)."""
    terms = (
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return z + sum(term / n ** (k + 1) for k, term in enumerate(terms))


def _below(t: float, degrees: float) -> float:
    """P(T <= t) for t >= 0: 1 - I_x(n/2, 1/2) / 2 at x = n / (n + t^2) (Abramowitz and Stegun 26.7.1)."""
    x = degrees / (degrees + t * t)
    return 1 - _beta(degrees / 2, 0.5, x, t * t / (degrees + t * t)) / 2


def _beta(a: float, b: float, x: float, rest: float) -> float:
    """The regularised incomplete beta function; `rest` is 1 - x, given for its digits."""
    if x <= 0 or rest <= 0:
        return 0.0 if x <= 0 else 1.0
    front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log(rest)
    if x < (a + 1) / (a + b + 2):
        return math.exp(front) * _fraction(a, b, x) / a
    return 1 - math.exp(front) * _fraction(b, a, rest) / b


def _fraction(a: float, b: float, x: float) -> float:
    """Its continued fraction by Lentz's method (NIST Digital Library of Mathematical Functions, 8.17.22 and 3.10)."""
    c, d = 1.0, 1 / _kept(1 - (a + b) * x / (a + 1))
    value = d
    for m in range(1, 10_000):
        for step in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / _kept(1 + step * d)
            c = _kept(1 + step / c)
            value *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return value


def _kept(value: float) -> float:
    """Away from 0, by which one divides."""
    return value if abs(value) > _TINY else _TINY
