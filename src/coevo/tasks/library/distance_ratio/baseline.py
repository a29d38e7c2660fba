"""No model: SLSQP from random starts on "minimise M subject to 1 <= squared distance <= M"."""

import time

import numpy as np
from scipy.optimize import minimize


def descend(start, n, dimension):
    """A local optimum near `start`, an (n, dimension) array."""
    left, right = np.triu_indices(n, 1)
    pairs = len(left)
    row = np.arange(pairs)
    size = n * dimension

    def gaps(z):
        p = z[:size].reshape(n, dimension)
        return p[left] - p[right]

    def value(z):
        squared = (gaps(z) ** 2).sum(axis=1)
        return np.concatenate([squared - 1, z[size] - squared])

    def jacobian(z):
        slope = np.zeros((pairs, n, dimension))
        slope[row, left], slope[row, right] = 2 * gaps(z), -2 * gaps(z)
        slope = slope.reshape(pairs, size)
        return np.vstack([np.hstack([slope, np.zeros((pairs, 1))]), np.hstack([-slope, np.ones((pairs, 1))])])

    goal = np.zeros(size + 1)
    goal[size] = 1.0
    squared = ((start[left] - start[right]) ** 2).sum(axis=1)
    start = start / squared.min() ** 0.5
    z = np.concatenate([start.ravel(), [squared.max() / squared.min()]])
    result = minimize(
        lambda z: z[size],
        z,
        jac=lambda z: goal,
        constraints=[{"type": "ineq", "fun": value, "jac": jacobian}],
        method="SLSQP",
        options={"maxiter": 300, "ftol": 1e-14},
    )
    return result.x[:size].reshape(n, dimension)


def ratio(p):
    left, right = np.triu_indices(len(p), 1)
    squared = ((p[left] - p[right]) ** 2).sum(axis=1)
    return squared.max() / squared.min() if squared.min() > 0 else np.inf


def points(n, dimension, seconds=20.0):
    end = time.process_time() + seconds
    rng = np.random.default_rng(0)
    best, best_ratio = None, np.inf
    while best is None or time.process_time() < end:
        found = descend(rng.normal(size=(n, dimension)), n, dimension)
        if np.isfinite(found).all() and ratio(found) < best_ratio:
            best, best_ratio = found, ratio(found)
    return best.tolist()
