"""No model: sequential linear programs with a trust region, from random starts."""

import time

import numpy as np
from scipy.optimize import linprog


def bound(h):
    return 2 * len(h) * np.convolve(h, h).max() / h.sum() ** 2


def heights(n, seconds=20.0):
    end = time.process_time() + seconds
    rng = np.random.default_rng(0)
    k, i = np.arange(2 * n - 1)[:, None], np.arange(n)[None, :]
    shift, inside = np.clip(k - i, 0, n - 1), (k >= i) & (k - i < n)
    best = np.ones(n)
    while time.process_time() < end:
        knots = rng.random(rng.integers(4, 20)) ** 2
        h = np.interp(np.linspace(0, 1, n), np.linspace(0, 1, len(knots)), knots) + 0.05
        h *= n / h.sum()
        trust = 0.5
        while trust > 1e-5 and time.process_time() < end:
            rows = np.hstack([2 * np.where(inside, h[shift], 0.0), -np.ones((2 * n - 1, 1))])
            step = linprog(
                np.append(np.zeros(n), 1.0),
                A_ub=rows,
                b_ub=-np.convolve(h, h),
                A_eq=np.append(np.ones(n), 0.0)[None, :],
                b_eq=[0.0],
                bounds=[(max(-x, -trust), trust) for x in h] + [(None, None)],
                method="highs",
            )
            trial = np.maximum(h + step.x[:n], 0) if step.success else h
            if bound(trial) < bound(h) - 1e-12:
                h, trust = trial, min(trust * 1.5, 1.0)
            else:
                trust *= 0.4
        best = min(best, h, key=bound)
    return best.tolist()
