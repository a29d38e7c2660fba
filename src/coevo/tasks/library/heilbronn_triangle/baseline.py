"""No model: SLSQP with the orientation of every triple held fixed, inside basin hopping from random starts."""

import time
from itertools import combinations

import numpy as np
from scipy.optimize import minimize


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
    """Raise the smallest area as far as it goes without turning a triple over."""
    n = len(p)
    sign = np.where(areas(p, ijk) >= 0, 1.0, -1.0)
    below = np.zeros((n, 2 * n + 1))
    below[np.arange(n), 2 * np.arange(n)] = below[np.arange(n), 2 * np.arange(n) + 1] = -1.0

    def value(z):
        q = z[:-1].reshape(n, 2)
        return np.concatenate([sign * areas(q, ijk) - z[-1], below @ z + 1])

    def jacobian(z):
        slope = slopes(z[:-1].reshape(n, 2), ijk, sign)
        return np.vstack([np.hstack([slope, -np.ones((len(sign), 1))]), below])

    goal = np.zeros(2 * n + 1)
    goal[-1] = -1.0
    result = minimize(
        lambda z: -z[-1],
        np.append(p.ravel(), np.abs(areas(p, ijk)).min()),
        jac=lambda z: goal,
        bounds=[(0.0, 1.0)] * (2 * n) + [(0.0, 1.0)],
        constraints=[{"type": "ineq", "fun": value, "jac": jacobian}],
        method="SLSQP",
        options={"maxiter": 80, "ftol": 1e-13},
    )
    q = np.clip(result.x[:-1].reshape(n, 2), 0, 1)
    return q / np.maximum(q.sum(axis=1, keepdims=True), 1.0)


def random_points(rng, n):
    p = rng.random((n, 2))
    return np.where(p.sum(axis=1, keepdims=True) > 1, 1 - p, p)


def points(n, seconds=20.0):
    end = time.process_time() + seconds
    rng, ijk = np.random.default_rng(0), triples(n)
    best, best_area = None, -1.0
    while best is None or time.process_time() < end:
        current, current_area, failures = random_points(rng, n), -1.0, 0
        trial = current
        while failures < 30 and (best is None or time.process_time() < end):
            trial = ascend(trial, ijk)
            area = np.abs(areas(trial, ijk)).min()
            failures += 1
            if area > current_area + 1e-9:
                current, current_area, failures = trial, area, 0
            if area > best_area:
                best, best_area = trial, area
            trial = current + rng.normal(0, 0.02, (n, 2))
            moved = rng.choice(n, rng.integers(1, 3), replace=False)
            trial[moved] = random_points(rng, len(moved))
            trial = np.clip(trial, 0, 1)
            trial = trial / np.maximum(trial.sum(axis=1, keepdims=True), 1.0)
    return best.tolist()
