"""An image of about `size` by `size`; the map is the identity, a rotation about the middle, a mirror, or arbitrary."""

from math import cos, pi, sin

import numpy as np


def generate(size, rng):
    rows, columns = (size, size) if size > 40 else (rng.randint(1, size), rng.randint(1, size))
    image = np.random.default_rng(rng.getrandbits(64)).uniform(-1000, 1000, (rows, columns))
    middle = np.array([(rows - 1) / 2, (columns - 1) / 2])
    kind = rng.randrange(4) if size <= 40 else 1
    if kind == 0:
        matrix, offset = np.eye(2), np.array([rng.randint(-2, 2), rng.randint(-2, 2) / 2])
    elif kind == 1:
        angle = rng.uniform(0, 2 * pi)
        matrix = np.array([[cos(angle), -sin(angle)], [sin(angle), cos(angle)]]) * rng.uniform(0.6, 1.4)
        offset = middle - matrix @ middle
    elif kind == 2:
        matrix, offset = np.array([[1.0, 0.0], [0.0, -1.0]]), np.array([0.0, columns - 1.0])
    else:
        matrix = np.array([[rng.uniform(-3, 3) for _ in range(2)] for _ in range(2)])
        offset = np.array([rng.uniform(-1000, 1000) if rng.random() < 0.2 else rng.uniform(-2, 2) for _ in range(2)])
    return image, matrix, offset
