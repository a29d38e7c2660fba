"""No model: SLSQP with exact gradients inside basin hopping (move a few circles, jitter, swap), restarted."""

import time

import numpy as np
from scipy.optimize import minimize


def constraints(n):
    """Walls and pairs as g(z) >= 0 for z = (x, y, r), with their Jacobian."""
    left, right = np.triu_indices(n, 1)
    pairs = len(left)
    eye, zero, row = np.eye(n), np.zeros((n, n)), np.arange(pairs)
    walls = np.vstack(
        [
            np.hstack([eye, zero, -eye]),
            np.hstack([-eye, zero, -eye]),
            np.hstack([zero, eye, -eye]),
            np.hstack([zero, -eye, -eye]),
        ]
    )
    offsets = np.repeat([0.0, 1.0, 0.0, 1.0], n)

    def value(z):
        x, y, r = z[:n], z[n : 2 * n], z[2 * n :]
        gap = (x[left] - x[right]) ** 2 + (y[left] - y[right]) ** 2 - (r[left] + r[right]) ** 2
        return np.concatenate([walls @ z + offsets, gap])

    def jacobian(z):
        x, y, r = z[:n], z[n : 2 * n], z[2 * n :]
        dx, dy, sums = 2 * (x[left] - x[right]), 2 * (y[left] - y[right]), -2 * (r[left] + r[right])
        gap = np.zeros((pairs, 3 * n))
        gap[row, left], gap[row, right] = dx, -dx
        gap[row, n + left], gap[row, n + right] = dy, -dy
        gap[row, 2 * n + left], gap[row, 2 * n + right] = sums, sums
        return np.vstack([walls, gap])

    return {"type": "ineq", "fun": value, "jac": jacobian}


def polish(z, n, rules, steps):
    """A local optimum near z."""
    goal = np.concatenate([np.zeros(2 * n), -np.ones(n)])
    bounds = [(0.0, 1.0)] * (2 * n) + [(0.0, 0.5)] * n
    result = minimize(
        lambda z: float(goal @ z),
        z,
        jac=lambda z: goal,
        bounds=bounds,
        constraints=[rules],
        method="SLSQP",
        options={"maxiter": steps, "ftol": 1e-12},
    )
    return result.x


def valid(z, n):
    """Rows (x, y, r) with all radii reduced until walls and pairs hold in floating point, and their sum."""
    x, y, r = np.clip(z[:n], 0, 1), np.clip(z[n : 2 * n], 0, 1), z[2 * n :]
    distance = np.hypot(x[:, None] - x, y[:, None] - y) + 4 * np.eye(n)
    over = max((r[:, None] + r - distance).max() / 2, (r - np.minimum.reduce([x, 1 - x, y, 1 - y])).max(), 0.0)
    r = np.maximum(r - over, 0.0)
    return np.column_stack([x, y, r]), float(r.sum())


def hop(z, n, rng):
    """A neighbour of z: some circles moved to random places, or two swapped, and all jittered."""
    z = z + np.concatenate([rng.normal(0, 0.02, 2 * n), np.zeros(n)])
    if n > 1 and rng.random() < 0.3:
        i, j = rng.choice(n, 2, replace=False)
        z[[i, j, n + i, n + j]] = z[[j, i, n + j, n + i]]
    else:
        for i in rng.choice(n, min(n, rng.integers(1, 4)), replace=False):
            z[i], z[n + i], z[2 * n + i] = rng.random(), rng.random(), 0.01
    z[: 2 * n] = np.clip(z[: 2 * n], 0.01, 0.99)
    return z


def pack(n, seconds=20.0):
    end = time.process_time() + seconds
    rng, rules = np.random.default_rng(0), constraints(n)
    best, best_sum = None, -1.0
    while best is None or time.process_time() < end:
        z = np.concatenate([rng.random(2 * n), np.full(n, 0.3 / n**0.5)])
        current, current_sum, failures = None, -1.0, 0
        while failures < 25 and (best is None or time.process_time() < end):
            trial = polish(z, n, rules, 150)
            rows, total = valid(trial, n)
            failures += 1
            if total > current_sum + 1e-9:
                current, current_sum, failures = trial, total, 0
            if total > best_sum:
                best, best_sum = rows, total
            z = hop(current, n, rng)
    return best.tolist()
