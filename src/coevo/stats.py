"""Small-sample statistics: medians and quantiles, bootstrap intervals, paired permutation tests, at one look or at several (a group-sequential
sign-flip test with a spending plan). All seeded, or exact.

Thin over `scipy.stats`, which is imported on first use.
"""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np

from coevo.errors import UsageError

_EXACT_UP_TO = 16
"""Pairs up to which all 2^n sign patterns are enumerated."""
_EXACT_PATHS_UP_TO = 13
_PIECE = 1_000_000


class Interval(NamedTuple):
    """An estimate with its confidence interval; `low` and `high` are NaN where the data cannot tell (one value)."""

    estimate: float
    low: float
    high: float


def median(values: Sequence[float]) -> float:
    """The median; the mean of the middle two for an even count. Raises `UsageError` without values or with NaN."""
    return float(np.median(_checked(values, "median")))


def quantiles(values: Sequence[float], qs: Sequence[float]) -> list[float]:
    """Quantiles at each of `qs` (0 to 1), linear between order statistics (Hyndman and Fan 1996, type 7)."""
    if not all(0 <= q <= 1 for q in qs):
        raise UsageError(f"quantiles must lie in 0 to 1, not {list(qs)}")
    return [float(q) for q in np.quantile(_checked(values, "quantiles"), list(qs))]


def bootstrap_ci(
    values: Sequence[float],
    *,
    seed: int,
    statistic: Callable[..., np.ndarray | float] = np.mean,
    confidence: float = 0.95,
    resamples: int = 5000,
    method: Literal["percentile", "BCa"] = "BCa",
) -> Interval:
    """Bootstrap confidence interval of `statistic(values, axis=...)`: BCa (Efron 1987) or percentile.

    Where BCa is undefined (all resamples alike), the interval is the estimate itself; for one value it is unknown (NaN).
    """
    from scipy import stats

    data = _checked(values, "a bootstrap interval")
    if not 0 < confidence < 1:
        raise UsageError(f"confidence must lie between 0 and 1, not {confidence!r}")
    estimate = float(statistic(data, axis=-1))
    if len(data) == 1:
        return Interval(estimate, math.nan, math.nan)
    if np.ptp(data) == 0:
        return Interval(estimate, estimate, estimate)
    rng = np.random.Generator(np.random.Philox(seed))

    def interval(how: str) -> tuple[float, float]:
        with np.errstate(divide="ignore", invalid="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore", stats.DegenerateDataWarning)  # Handled below.
            found = stats.bootstrap(
                (data,), statistic, n_resamples=resamples, confidence_level=confidence, method=how, rng=rng
            ).confidence_interval
        return float(found.low), float(found.high)

    low, high = interval(method)
    if math.isnan(low) or math.isnan(high):
        low, high = interval("percentile")
    return Interval(estimate, low, high)


def sign_flip_p(
    differences: Sequence[float],
    *,
    seed: int,
    alternative: Literal["two-sided", "greater", "less"] = "two-sided",
    resamples: int = 20_000,
) -> float:
    """P-value of the paired permutation test of "the differences are symmetric about 0", on their mean.

    Exact up to 16 pairs that differ (all sign patterns); otherwise from `resamples` random patterns, the observed one counted in,
    so that p is never 0 (Phipson and Smyth 2010). Pairs that tie say nothing and are dropped; without any others p is 1.
    """
    data = _checked(differences, "a paired test") if len(differences) else np.empty(0)
    data = data[data != 0]
    n = len(data)
    if n == 0:
        return 1.0
    observed = float(data.sum())
    slack = 1e-12 * float(np.abs(data).sum())  # Sums that are equal on paper must count as equal.
    extreme = total = 0
    for sums in _flipped_sums(data, seed=seed, resamples=resamples):
        if alternative == "greater":
            hits = sums >= observed - slack
        elif alternative == "less":
            hits = sums <= observed + slack
        else:
            hits = np.abs(sums) >= abs(observed) - slack
        extreme, total = extreme + int(hits.sum()), total + len(sums)
    return extreme / total


def _flipped_sums(data: np.ndarray, *, seed: int, resamples: int) -> Iterator[np.ndarray]:
    """Sums under sign patterns: all of them, or the observed one and `resamples` random ones, in pieces of bounded size."""
    n = len(data)
    if n <= _EXACT_UP_TO:
        yield (1 - 2 * ((np.arange(2**n)[:, None] >> np.arange(n)) & 1)) @ data
        return
    yield np.array([data.sum()])
    rng = np.random.Generator(np.random.Philox(seed))
    while resamples > 0:
        count = min(resamples, max(1, _PIECE // n))
        yield (rng.integers(0, 2, (count, n), dtype=np.int8) * 2 - 1) @ data
        resamples -= count


def paired_permutation_p(
    a: Sequence[float],
    b: Sequence[float],
    *,
    seed: int,
    alternative: Literal["two-sided", "greater", "less"] = "two-sided",
    resamples: int = 20_000,
) -> float:
    """P-value of "a and b do not differ", for values paired by position; `greater` asks whether `a` is greater."""
    if len(a) != len(b):
        raise UsageError(f"a paired test needs as many values on both sides, not {len(a)} and {len(b)}")
    if len(a) == 0:
        return 1.0
    differences = _checked(a, "a paired test") - _checked(b, "a paired test")
    return sign_flip_p(list(differences), seed=seed, alternative=alternative, resamples=resamples)


def crossed_bootstrap(
    table: Sequence[Sequence[float]],
    *,
    seed: int,
    confidence: float = 0.95,
    resamples: int = 5000,
    rows: bool = True,
    columns: bool = True,
) -> tuple[Interval, float]:
    """Percentile interval of the mean of a two-way table whose rows and columns are both samples (training seeds and tasks,
    say), and the two-sided p-value of "the mean is 0". NaN marks a cell that was not measured.

    Rows and columns are drawn with replacement, independently (the pigeonhole bootstrap: Owen 2007, Annals of Applied Statistics
    1(2)); its variance is at least that of the mean under crossed random effects, up to a factor (n - 1) / n per way, which
    is not small for few rows. `rows` or `columns` False keeps that way as it is: the claim is then about these very rows or
    columns. p is twice the smaller tail of the resampled means beyond 0, the observed table counted in.
    """
    data = np.asarray(table, dtype=float)
    if data.ndim != 2 or data.size == 0 or np.isinf(data).any():
        raise UsageError(
            f"a crossed bootstrap needs a table of numbers (NaN for none), not an array of shape {data.shape}"
        )
    known = np.isfinite(data)
    if not known.any():
        raise UsageError("a crossed bootstrap needs one measured cell or more; there is none")
    if not 0 < confidence < 1:
        raise UsageError(f"confidence must lie between 0 and 1, not {confidence!r}")
    filled = np.where(known, data, 0.0)
    estimate = float(filled.sum() / known.sum())
    if max(data.shape[0] * rows, data.shape[1] * columns) <= 1:
        return Interval(estimate, math.nan, math.nan), math.nan
    row_weights, column_weights = crossed_weights(
        data.shape, seed=seed, resamples=resamples, rows=rows, columns=columns
    )
    cells = ((row_weights @ known) * column_weights).sum(axis=1)
    sums = ((row_weights @ filled) * column_weights).sum(axis=1)
    means = sums[cells > 0] / cells[cells > 0]
    tail = (1 - confidence) / 2
    low, high = np.quantile(means, [tail, 1 - tail])
    below, above = int((means <= 0).sum()), int((means >= 0).sum())
    p = min(1.0, 2 * (1 + min(below, above)) / (1 + len(means)))
    return Interval(estimate, float(low), float(high)), p


def crossed_weights(
    shape: tuple[int, int], *, seed: int, resamples: int, rows: bool = True, columns: bool = True
) -> tuple[np.ndarray, np.ndarray]:
    """How often `crossed_bootstrap` draws each row and each column: (resamples, rows) and (resamples, columns)."""
    rng = np.random.Generator(np.random.Philox(seed))
    first, second = (
        _multiplicities(rng, n, resamples) if drawn else np.ones((resamples, n))
        for n, drawn in zip(shape, (rows, columns), strict=True)
    )
    return first, second


def _multiplicities(rng: np.random.Generator, n: int, resamples: int) -> np.ndarray:
    """How often each of n is drawn, per resample: (resamples, n)."""
    return rng.multinomial(n, np.full(n, 1 / n), size=resamples).astype(float)


def holm(p_values: Sequence[float]) -> list[float]:
    """P-values adjusted for testing all of them (Holm 1979, step-down): the chance of one false claim or more stays below the
    level, whatever their dependence. NaN stays NaN and is not counted."""
    order = sorted((i for i, p in enumerate(p_values) if not math.isnan(p)), key=lambda i: p_values[i])
    adjusted, least = [math.nan] * len(p_values), 0.0
    for rank, i in enumerate(order):
        least = max(least, min(1.0, (len(order) - rank) * p_values[i]))
        adjusted[i] = least
    return adjusted


def minimum_detectable_effect(sd: float, n: int, *, alpha: float = 0.05, power: float = 0.8) -> float:
    """The true mean difference that a two-sided test of n paired differences of standard deviation `sd` finds with probability
    `power`: (z(1 - alpha / 2) + z(power)) sd / sqrt(n), by the normal approximation."""
    from scipy import special

    if n < 1 or not sd >= 0 or not 0 < alpha < 1 or not 0 < power < 1:
        raise UsageError(f"no minimum detectable effect for sd={sd!r}, n={n!r}, alpha={alpha!r}, power={power!r}")
    z = float(special.ndtri(1 - alpha / 2) + special.ndtri(power))
    return z * sd / math.sqrt(n)


Spending = Literal["obrien_fleming", "pocock", "linear"]


def spent(spending: Spending, fraction: float, alpha: float) -> float:
    """Of the one-sided `alpha`, what a plan may have spent at an information `fraction` (0 to 1) (Lan and DeMets 1983, Biometrika 70).

    obrien_fleming: 2 - 2 Phi(z(1 - alpha / 2) / sqrt(t)); pocock: alpha ln(1 + (e - 1) t); linear: alpha t.
    """
    from scipy import special

    t = min(1.0, fraction)
    if t <= 0:
        return 0.0
    if spending == "obrien_fleming":
        return float(2 * special.ndtr(special.ndtri(alpha / 2) / math.sqrt(t)))
    return alpha * math.log1p((math.e - 1) * t) if spending == "pocock" else alpha * t


class FlippedPaths(NamedTuple):
    """Means of paired differences at each look under the same sign patterns; row 0 is the observed one (no sign flipped)."""

    means: np.ndarray
    """(patterns, looks): mean over the pairs measured by then of sign * difference."""
    signs: np.ndarray
    """(patterns, looks): mean of the signs alone, so that a shift of all differences by d subtracts d * signs."""

    def crossing(self, allowed: Sequence[float], *, shift: float = 0.0, below: bool = False) -> int:
        """The look (from 1) at which the observed mean crosses the upper boundary, 0 if it never does: see `first_crossing`. Tests "the mean
        is `shift` or less", or with `below`, "`shift` or more"."""
        moved = self.means - shift * self.signs
        return first_crossing(-moved if below else moved, allowed)


def flipped_paths(paths: np.ndarray, *, seed: int, resamples: int = 9_999) -> FlippedPaths:
    """Sign-flip distribution of cumulated paired differences: `paths` is (pairs, looks), NaN where a pair was not measured yet.

    A pattern gives each pair one sign for all looks, since a pair's differences at several looks come from the same samples.
    All 2^n patterns up to n = 13 pairs, otherwise `resamples` random ones and the observed one. The random patterns depend on `seed` and
    the number of pairs alone: give the same `seed` at every look, and keep the pairs that are still unmeasured as NaN.
    """
    n, looks = paths.shape
    known = np.isfinite(paths)
    counts = np.maximum(known.sum(axis=0), 1)
    values = np.where(known, paths, 0.0) / counts
    shares = known / counts
    if n <= _EXACT_PATHS_UP_TO:
        patterns = 1.0 - 2.0 * ((np.arange(2**n)[:, None] >> np.arange(n)) & 1)
        return FlippedPaths(patterns @ values, patterns @ shares)
    rng = np.random.Generator(np.random.Philox(seed))
    means, signs = np.empty((resamples + 1, looks)), np.empty((resamples + 1, looks))
    means[0], signs[0] = values.sum(axis=0), shares.sum(axis=0)
    step = max(1, _PIECE // n)
    for begin in range(1, resamples + 1, step):
        rows = slice(begin, min(begin + step, resamples + 1))
        patterns = rng.integers(0, 2, (rows.stop - begin, n), dtype=np.int8) * 2.0 - 1.0
        means[rows], signs[rows] = patterns @ values, patterns @ shares
    return FlippedPaths(means, signs)


def smallest_flip_share(pairs: int, resamples: int = 9_999) -> float:
    """The smallest share of patterns that `flipped_paths` can tell apart: no p is smaller."""
    return 2.0**-pairs if pairs <= _EXACT_PATHS_UP_TO else 1 / (resamples + 1)


def first_crossing(means: np.ndarray, allowed: Sequence[float]) -> int:
    """At which look (from 1) row 0 of `means` (patterns, looks) crosses; 0 if it does not.

    `allowed[j]` is the share of all patterns that may have crossed by look j + 1 (a spending plan, cumulated). The boundary of a look is the
    lowest value under which no more patterns than that have crossed by then; values that tie stay together on the near side, and what a
    look leaves unspent is there for the next. Given the differences up to their signs, each pattern is as likely as the
    observed one if both arms of every pair have the same distribution, so the chance to cross at all is at most `allowed[-1]`: whatever the
    distribution, the number of pairs, the ties, and wherever one stops before. (The permutation distribution as the joint null distribution
    over looks; with random patterns: Hemerik and Goeman 2018, TEST 27, Theorem 1.)
    """
    total = len(means)
    alive = means
    crossed = 0
    for look, share in enumerate(allowed):
        room = math.floor(share * total + 1e-9) - crossed
        if room <= 0:
            continue
        column = alive[:, look]
        if room >= len(column):
            return look + 1
        edge = float(np.partition(column, len(column) - room - 1)[len(column) - room - 1])
        over = column > edge + 1e-9 * max(1e-3, abs(edge))
        if over[0]:
            return look + 1
        crossed += int(over.sum())
        alive = alive[~over]
    return 0


@functools.cache
def plan_boundaries(spending: Spending, looks: int, alpha: float) -> tuple[float, ...]:
    """Upper boundaries in z for equally spaced looks, by numerical integration over Brownian motion (Armitage, McPherson and Rowe
    1969). What the sign-flip test comes to for many pairs; used to state power beforehand."""
    from scipy import optimize, special

    bounds: list[float] = []
    for j in range(1, looks + 1):
        goal = spent(spending, j / looks, alpha)
        before = _crossed(bounds, looks, 0.0)
        if goal - before < 1e-12:
            bounds.append(float(-special.ndtri(1e-13)))
            continue
        found = optimize.root_scalar(
            lambda z, g=goal: _crossed([*bounds, z], looks, 0.0) - g, bracket=(-4.0, 9.0), xtol=1e-6
        )
        bounds.append(float(found.root))
    return tuple(bounds)


@functools.cache
def plan_drift(spending: Spending, looks: int, alpha: float, power: float) -> float:
    """The expected z at the last look with which the plan rejects with probability `power`. For one look: z(1 - alpha) + z(power)."""
    from scipy import optimize

    bounds = plan_boundaries(spending, looks, alpha)
    return float(
        optimize.root_scalar(lambda drift: _crossed(bounds, looks, drift) - power, bracket=(0.0, 20.0), xtol=1e-6).root
    )


def _crossed(bounds: Sequence[float], looks: int, drift: float) -> float:
    """Chance that Brownian motion with `drift` at time 1 is over bounds[j] sqrt(t_j) at one of the first looks t_j = j / looks."""
    from scipy import special

    sd = 1 / math.sqrt(looks)
    total = 0.0
    grid, density = np.zeros(1), np.ones(1)
    for j, bound in enumerate(bounds, start=1):
        edge = bound * math.sqrt(j / looks)
        step = drift / looks
        total += float(density @ special.ndtr((grid + step - edge) / sd))
        if j == len(bounds):
            break
        low = min(edge - 1e-6, drift * j / looks - 9.0)
        fresh, width = np.linspace(low, edge, 300, retstep=True)
        kernel = np.exp(-0.5 * ((fresh[:, None] - grid[None, :] - step) / sd) ** 2) / (sd * math.sqrt(2 * math.pi))
        weights = np.full(300, width)
        weights[[0, -1]] = width / 2
        grid, density = fresh, (kernel @ density) * weights
    return total


def clopper_pearson(hits: int, trials: int, *, confidence: float = 0.95) -> Interval:
    """Exact interval of a share (Clopper and Pearson 1934): it covers at least as often as it says."""
    from scipy import special

    if not 0 <= hits <= trials or trials < 1 or not 0 < confidence < 1:
        raise UsageError(f"no interval for {hits!r} of {trials!r} at confidence {confidence!r}")
    tail = (1 - confidence) / 2
    low = float(special.betaincinv(hits, trials - hits + 1, tail)) if hits else 0.0
    high = float(special.betaincinv(hits + 1, trials - hits, 1 - tail)) if hits < trials else 1.0
    return Interval(hits / trials, low, high)


def _checked(values: Sequence[float], what: str) -> np.ndarray:
    data = np.asarray(values, dtype=float)
    if data.ndim != 1 or data.size == 0:
        raise UsageError(f"{what} needs a list of one or more numbers, not an array of shape {data.shape}")
    if not np.isfinite(data).all():
        raise UsageError(f"{what} needs finite numbers; value {int(np.argmin(np.isfinite(data)))} is not")
    return data
