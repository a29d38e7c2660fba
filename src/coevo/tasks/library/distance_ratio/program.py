"""Points whose largest and smallest distance are close: a sunflower spiral, then descent on a smooth ratio."""

import numpy as np

# EVOLVE-BLOCK-START
TURN = 2.4  # angle between successive points, in radians
TILT = 0.9  # angle between successive points in every further plane
POWER = 0.5  # radius of point i grows like (i + OFFSET) ** POWER
OFFSET = 0.5
STEPS = 60  # steps of descent
RATE = 0.02  # length of the first step
DECAY = 0.97  # every step is shorter than the one before by this factor
SHARP = 12.0  # exponent of the power means that stand for largest and smallest distance


def spiral(n, dimension):
    """n points that fill a ball roughly evenly."""
    points = np.zeros((n, dimension))
    for i in range(n):
        point = [1.0]
        for axis in range(dimension - 1):
            angle = (TURN if axis == 0 else TILT * (axis + 1)) * i
            last = point.pop()
            point += [last * np.cos(angle), last * np.sin(angle)]
        points[i] = (i + OFFSET) ** POWER * np.array(point)
    return points / n**POWER


def descend(points):
    """Pull the farthest pairs together and push the closest apart, softly weighted."""
    rate = RATE
    for _ in range(STEPS):
        gaps = points[:, None, :] - points[None, :, :]
        distance = np.sqrt((gaps**2).sum(axis=2))
        np.fill_diagonal(distance, np.inf)
        push = (distance.min() / distance) ** SHARP
        np.fill_diagonal(distance, 1e-9)
        pull = (distance / distance.max()) ** SHARP
        points = points + rate * (gaps / distance[:, :, None] * (push - pull)[:, :, None]).sum(axis=1)
        rate *= DECAY
    return points


# EVOLVE-BLOCK-END


def points(n, dimension):
    return descend(spiral(n, dimension)).tolist()
