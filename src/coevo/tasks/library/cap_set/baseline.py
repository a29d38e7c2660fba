"""No model: greedy with random priorities that depend on a vector only through counts within classes of coordinates."""

import itertools
import time

import numpy as np


def greedy(order, vectors, weights, n):
    """Vectors kept when gone through in `order`."""
    blocked = np.zeros(3**n, dtype=bool)
    chosen = np.zeros((0, n), dtype=np.int64)
    for i in order:
        if blocked[i]:
            continue
        blocked[(-(chosen + vectors[i]) % 3) @ weights] = True
        blocked[i] = True
        chosen = np.vstack([chosen, vectors[i]])
    return chosen


def cap(n, seconds=20.0):
    end = time.process_time() + seconds
    rng = np.random.default_rng(0)
    vectors = np.array(list(itertools.product(range(3), repeat=n)))
    weights = 3 ** np.arange(n)[::-1]
    best = np.zeros((0, n), dtype=np.int64)
    while len(best) == 0 or time.process_time() < end:
        period = int(rng.integers(1, 5))
        key = np.zeros(len(vectors), dtype=np.int64)
        for part in range(period):
            block = vectors[:, part::period]
            key = (key * (n + 1) + (block == 1).sum(axis=1)) * (n + 1) + (block == 2).sum(axis=1)
        _, kind = np.unique(key, return_inverse=True)
        found = greedy(np.argsort(rng.random(kind.max() + 1)[kind], kind="stable"), vectors, weights, n)
        if len(found) > len(best):
            best = found
    return best.tolist()
