"""A cap set, greedily in the order of a priority."""

import itertools

import numpy as np

# EVOLVE-BLOCK-START
ONES = 1.0  # weight of the number of ones
TWOS = 0.5  # weight of the number of twos
WAVE = 0.3  # weight of a periodic term
PERIOD = 4.0  # its period, in units of the sum of the entries


def priority(vector, n):
    """The greedy construction looks at vectors of high priority first."""
    ones, twos = vector.count(1), vector.count(2)
    return -ONES * ones - TWOS * twos + WAVE * np.cos(2 * np.pi * (ones + 2 * twos) / PERIOD)


# EVOLVE-BLOCK-END


def cap(n):
    vectors = list(itertools.product(range(3), repeat=n))
    order = sorted(vectors, key=lambda v: -float(priority(v, n)))
    weights = 3 ** np.arange(n)[::-1]
    blocked = np.zeros(3**n, dtype=bool)
    chosen = np.zeros((0, n), dtype=np.int64)
    for v in order:
        point = np.array(v)
        if blocked[point @ weights]:
            continue
        blocked[(-(chosen + point) % 3) @ weights] = True
        blocked[point @ weights] = True
        chosen = np.vstack([chosen, point])
    return chosen.tolist()
