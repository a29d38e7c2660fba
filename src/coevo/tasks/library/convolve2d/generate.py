"""An image of about `size` by `size` and a kernel of a quarter of its side; small ones have any two shapes."""

import numpy as np


def generate(size, rng):
    draws = np.random.default_rng(rng.getrandbits(64))
    if size > 40:
        shapes = (size, size), (size // 4, size // 4)
    else:
        shapes = tuple((rng.randint(1, size), rng.randint(1, size)) for _ in range(2))
    image, kernel = (draws.uniform(-1000, 1000, shape) for shape in shapes)
    if size <= 40 and rng.random() < 0.3:
        kernel = np.round(kernel / 500)
    return image, kernel
