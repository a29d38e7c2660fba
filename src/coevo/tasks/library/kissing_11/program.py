"""Touching spheres: integer vectors of a few shapes and equal length, taken greedily."""

import itertools

import numpy as np

# EVOLVE-BLOCK-START
SHAPES = [(1, 1)]  # absolute values of the nonzero entries; all shapes must have one squared length
WEIGHTS = [1.0, 0.6, 0.3, 0.2, 0.1]  # vectors with a large weighted sum of entries come first


def order(vector):
    """Vectors are tried in the order of this number, highest first."""
    return sum(WEIGHTS[i % len(WEIGHTS)] * x for i, x in enumerate(vector))


# EVOLVE-BLOCK-END


def vectors(dimension):
    """All placements and signs of all shapes."""
    found = set()
    for shape in SHAPES:
        for places in itertools.permutations(range(dimension), len(shape)):
            for signs in itertools.product((1, -1), repeat=len(shape)):
                vector = [0] * dimension
                for place, sign, size in zip(places, signs, shape, strict=True):
                    vector[place] = sign * size
                found.add(tuple(vector))
    return sorted(found, key=lambda v: (-order(v), v))


def centres(dimension):
    pool = np.array(vectors(dimension))
    longest = (pool**2).sum(axis=1).max()
    alive = np.ones(len(pool), dtype=bool)
    chosen = []
    for i in range(len(pool)):
        if alive[i]:
            chosen.append(pool[i].tolist())
            alive &= ((pool - pool[i]) ** 2).sum(axis=1) >= longest
    return chosen
