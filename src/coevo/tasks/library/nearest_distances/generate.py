"""`size` points in two to five dimensions, scattered or on a coarse lattice (ties), and about a quarter as many queries."""

import numpy as np


def generate(size, rng):
    dimensions = rng.randint(1, 5) if size < 200 else 3
    count = rng.randint(0, size) if size < 200 else size // 4
    draws = np.random.default_rng(rng.getrandbits(64))
    points = draws.uniform(-1000, 1000, (size, dimensions))
    queries = draws.uniform(-1000, 1000, (count, dimensions))
    if size < 200 and rng.random() < 0.4:
        points, queries = np.round(points / 500), np.round(queries / 500)
    return points, queries, rng.randint(1, min(size, 10))
