"""No model: greedy choice, in random linear orders, among integer vectors of squared length 4 or 8."""

import itertools
import time

import numpy as np

SHAPES = ([(2,), (1, 1, 1, 1)], [(2, 2), (2, 1, 1, 1, 1), (1,) * 8])


def pool(shapes, dimension):
    """All placements and signs of the shapes, as rows of small integers."""
    rows = []
    for shape in shapes:
        signs = list(itertools.product((1, -1), repeat=len(shape)))
        for places in itertools.combinations(range(dimension), len(shape)):
            for sizes in set(itertools.permutations(shape)):
                block = np.zeros((len(signs), dimension), dtype=np.int16)
                block[:, places] = np.array(signs) * sizes
                rows.append(block)
    return np.vstack(rows)


def greedy(points, length):
    """Rows kept in order; two kept ones have an inner product of at most half the squared length."""
    kept = []
    while len(points):
        kept.append(points[0].tolist())
        points = points[points @ points[0] <= length // 2]
    return kept


def centres(dimension, seconds=20.0):
    end = time.process_time() + seconds
    rng = np.random.default_rng(0)
    pools = [pool(shapes, dimension) for shapes in SHAPES]
    best = []
    while not best or time.process_time() < end:
        chosen = int(rng.random() < 0.3)
        points = pools[chosen]
        order = np.argsort(-(points @ rng.integers(-3, 4, dimension)) + rng.random(len(points)) * rng.choice((0.5, 4)))
        found = greedy(points[order], (4, 8)[chosen])
        if len(found) > len(best):
            best = found
    return best
