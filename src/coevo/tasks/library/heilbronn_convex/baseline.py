"""No model: SLSQP with the orientation of every triple (and so the hull) held fixed, inside basin hopping."""

import time
from itertools import combinations

import numpy as np
from scipy.optimize import minimize
from scipy.spatial import ConvexHull


def triples(n):
    return np.array(list(combinations(range(n), 3))).T


def areas(p, ijk):
    """Twice the signed area of every triple."""
    a, b, c = (p[index] for index in ijk)
    return (b[:, 0] - a[:, 0]) * (c[:, 1] - a[:, 1]) - (b[:, 1] - a[:, 1]) * (c[:, 0] - a[:, 0])


def slopes(p, ijk, sign):
    """Jacobian of sign * areas over the flattened points."""
    count, row = len(sign), np.arange(len(sign))
    a, b, c = (p[index] for index in ijk)
    slope = np.zeros((count, len(p), 2))
    for index, (u, v) in zip(ijk, ((b, c), (c, a), (a, b)), strict=True):
        slope[row, index, 0] = sign * (u[:, 1] - v[:, 1])
        slope[row, index, 1] = sign * (v[:, 0] - u[:, 0])
    return slope.reshape(count, -1)


def ascend(p, ijk):
    """Raise the smallest area over that of the hull as far as it goes without turning a triple over."""
    n = len(p)
    sign = np.where(areas(p, ijk) >= 0, 1.0, -1.0)
    corners = ConvexHull(p).vertices
    after, before = np.roll(corners, -1), np.roll(corners, 1)

    def hull(q):
        return (q[corners, 0] * q[after, 1] - q[corners, 1] * q[after, 0]).sum()

    def value(z):
        q = z[:-1].reshape(n, 2)
        return np.append(sign * areas(q, ijk) - z[-1], 1 - hull(q))

    def jacobian(z):
        q = z[:-1].reshape(n, 2)
        slope = np.zeros((n, 2))
        slope[corners, 0] = q[before, 1] - q[after, 1]
        slope[corners, 1] = q[after, 0] - q[before, 0]
        triple = np.hstack([slopes(q, ijk, sign), -np.ones((len(sign), 1))])
        return np.vstack([triple, np.append(slope.ravel(), 0.0)])

    goal = np.zeros(2 * n + 1)
    goal[-1] = -1.0
    p = (p - p.mean(axis=0)) / hull(p) ** 0.5
    result = minimize(
        lambda z: -z[-1],
        np.append(p.ravel(), np.abs(areas(p, ijk)).min()),
        jac=lambda z: goal,
        constraints=[{"type": "ineq", "fun": value, "jac": jacobian}],
        method="SLSQP",
        options={"maxiter": 80, "ftol": 1e-13},
    )
    return result.x[:-1].reshape(n, 2)


def ratio(p, ijk):
    """Twice the smallest area over twice the hull's; 0 for what is not a set of points."""
    if not np.isfinite(p).all() or np.linalg.matrix_rank(p - p[0]) < 2:
        return 0.0
    return np.abs(areas(p, ijk)).min() / (2 * ConvexHull(p).volume)


def points(n, seconds=20.0):
    end = time.process_time() + seconds
    rng, ijk = np.random.default_rng(0), triples(n)
    best, best_ratio = None, -1.0
    while best is None or time.process_time() < end:
        trial = current = rng.normal(size=(n, 2))
        current_ratio, failures = -1.0, 0
        while failures < 30 and (best is None or time.process_time() < end):
            trial = ascend(trial, ijk)
            value = ratio(trial, ijk)
            failures += 1
            if value > current_ratio + 1e-9:
                current, current_ratio, failures = trial, value, 0
            if value > best_ratio:
                best, best_ratio = trial, value
            trial = current + rng.normal(0, 0.02, (n, 2))
            moved = rng.choice(n, rng.integers(1, 3), replace=False)
            trial[moved] = rng.uniform(current.min(axis=0), current.max(axis=0), (len(moved), 2))
    return best.tolist()
