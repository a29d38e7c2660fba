"""A step function with a flat autoconvolution: a shape with a few parameters, then multiplicative descent."""

import numpy as np

# EVOLVE-BLOCK-START
EDGE = 0.3  # height grows like distance-to-the-edge to the power -EDGE
FLOOR = 0.02  # keeps the edge finite
TILT = 0.3  # difference between the two sides
BUMP = 0.2  # height of a bump in the middle
WIDTH = 0.1  # its width
STEPS = 100  # steps of descent
RATE = 0.05  # length of the first step
DECAY = 0.98  # every step is shorter than the one before by this factor
SHARP = 60.0  # how closely the soft maximum follows the maximum


def shape(n):
    """Heights before the descent."""
    x = (np.arange(n) + 0.5) / n
    rise = (np.minimum(x, 1 - x) + FLOOR) ** -EDGE
    return rise * (1 + TILT * (x - 0.5)) + BUMP * np.exp(-(((x - 0.5) / WIDTH) ** 2))


def descend(h):
    """Lower the soft maximum of the autoconvolution by gradient steps on the logarithms of the heights."""
    rate = RATE
    for _ in range(STEPS):
        h = h / h.sum()
        conv = np.convolve(h, h)
        weight = np.exp(SHARP * (conv / conv.max() - 1))
        weight /= weight.sum()
        slope = np.correlate(weight, h, mode="valid")
        h = h * np.exp(-rate * (slope / (h @ slope) - 1))
        rate *= DECAY
    return h


# EVOLVE-BLOCK-END


def heights(n):
    return descend(shape(n)).tolist()
