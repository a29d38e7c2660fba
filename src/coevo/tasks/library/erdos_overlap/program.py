"""A step function with small overlap: a symmetric shape with a few parameters, then projected descent."""

import numpy as np

# EVOLVE-BLOCK-START
CENTRE = 0.9  # height in the middle
SLOPE = 1.0  # how fast the height falls towards both ends
WAVE = 0.1  # height of a ripple on top
WAVES = 5.0  # half waves of the ripple between the middle and an end
STEPS = 8  # steps of descent
RATE = 0.02  # length of the first step
DECAY = 0.97  # every step is shorter than the one before by this factor
SHARP = 200.0  # how closely the soft maximum follows the maximum


def shape(n):
    """Heights before the descent, in [0, 1]."""
    x = np.abs((np.arange(n) + 0.5) / n * 2 - 1)
    return np.clip(CENTRE - SLOPE * x**2 + WAVE * np.cos(np.pi * WAVES * x), 0, 1)


def descend(h):
    """Lower the soft maximum of the overlap; keep the values in [0, 1] and their sum at n/2."""
    n = len(h)
    rate = RATE
    for _ in range(STEPS):
        h = balanced(h)
        overlap = np.correlate(1 - h, h, mode="full") * 2 / n
        weight = np.exp(SHARP * (overlap - overlap.max()))
        weight /= weight.sum()
        slope = gradient(h, weight)
        h = h - rate * (slope - slope.mean()) / (np.abs(slope - slope.mean()).max() + 1e-12)
        rate *= DECAY
    return balanced(h)


def gradient(h, weight):
    """Slope of sum_k weight[k] * overlap[k], where overlap[k] = sum_i h[i] (1 - h[i + k])."""
    n = len(h)
    return np.convolve(1 - h, weight[::-1])[n - 1 : 2 * n - 1] - np.convolve(h, weight)[n - 1 : 2 * n - 1]


def balanced(h):
    """Shift and clip the values until they lie in [0, 1] and sum to n/2."""
    low, high = -2.0, 2.0
    for _ in range(60):
        shift = (low + high) / 2
        if np.clip(h + shift, 0, 1).sum() < len(h) / 2:
            low = shift
        else:
            high = shift
    return np.clip(h + high, 0, 1)


# EVOLVE-BLOCK-END


def heights(n):
    return descend(shape(n)).tolist()
