"""A matrix of side `size`: full, with small integers, with repeated rows (singular), or zero."""

import numpy as np


def generate(size, rng):
    draws = np.random.default_rng(rng.getrandbits(64))
    matrix = draws.uniform(-1000, 1000, (size, size))
    kind = rng.randrange(4) if size <= 40 else 0
    if kind == 1:
        matrix = np.round(matrix / 400)
    elif kind == 2:
        matrix[rng.randrange(size)] = 2 * matrix[rng.randrange(size)] * 0.25
    elif kind == 3 and rng.random() < 0.4:
        matrix = np.zeros((size, size))
    return (matrix,)
