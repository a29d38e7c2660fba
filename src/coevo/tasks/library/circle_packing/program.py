"""Circles in the unit square: rows of centres, pushed apart, then radii as large as their neighbours allow."""

import numpy as np

# EVOLVE-BLOCK-START
MARGIN = 0.45  # distance of the outer rows from the walls; lengths are in units of 1 / sqrt(n)
SHIFT = 0.5  # how far every second row is shifted, in units of the column distance
JITTER = 0.1  # size of the random displacement that breaks the symmetry
SEED = 1
STEPS = 30  # rounds of pushing
FORCE = 0.05  # strength of the first push
DECAY = 0.95  # every push is weaker than the one before by this factor
REACH = 0.9  # centres closer than this repel each other
WALL = 0.4  # centres closer than this to a wall are moved back


def centres(n):
    """n points in about sqrt(n) rows, every second one shifted."""
    margin = MARGIN / n**0.5
    rows = max(1, round(n**0.5))
    counts = [n // rows + (1 if i < n % rows else 0) for i in range(rows)]
    points = []
    for i, count in enumerate(counts):
        y = margin + (1 - 2 * margin) * i / max(rows - 1, 1)
        for j in range(count):
            x = margin + (1 - 2 * margin) * (j + SHIFT * (i % 2)) / count
            points.append((x, y))
    rng = np.random.default_rng(SEED)
    return np.array(points) + JITTER / n**0.5 * rng.uniform(-1, 1, (n, 2))


def spread(points):
    """Push centres away from close neighbours and from the walls."""
    unit = len(points) ** -0.5
    reach, wall, force = REACH * unit, WALL * unit, FORCE
    for _ in range(STEPS):
        gaps = points[:, None, :] - points[None, :, :]
        distance = np.sqrt((gaps**2).sum(axis=2)) + 1e-12
        push = np.where(distance < reach, reach - distance, 0.0) / distance
        points = points + force * (gaps * push[:, :, None]).sum(axis=1) / unit
        points = np.clip(points, wall, 1 - wall)
        force *= DECAY
    return points


def radii(points):
    """Each circle gets half the way to its nearest neighbour, then, one after the other, all the room left."""
    n = len(points)
    wall = np.minimum(points, 1 - points).min(axis=1)
    distance = np.sqrt(((points[:, None, :] - points[None, :, :]) ** 2).sum(axis=2))
    distance[np.arange(n), np.arange(n)] = np.inf
    r = np.minimum(wall, distance.min(axis=1) / 2)
    for i in np.argsort(-wall):
        r[i] = min(wall[i], (distance[i] - r).min())
    return r


# EVOLVE-BLOCK-END


def pack(n):
    points = spread(centres(n))
    return np.column_stack([points, radii(points)]).tolist()
