"""Points in a triangle without thin triples: an additive recurrence, then random moves that do not make it worse."""

import numpy as np

# EVOLVE-BLOCK-START
ALPHA = 0.7548776662  # steps of the recurrence along both sides
BETA = 0.5698402910
START_X = 0.5
START_Y = 0.5
SEED = 3
MOVES = 150  # random moves tried
STEP = 0.1  # standard deviation of the first move
DECAY = 0.98  # every move is smaller than the one before by this factor


def start(n):
    """Points of a low-discrepancy sequence in the square, folded into the triangle."""
    i = np.arange(n)
    points = np.column_stack([(START_X + ALPHA * i) % 1, (START_Y + BETA * i) % 1])
    above = points.sum(axis=1) > 1
    points[above] = 1 - points[above]
    return points


def improve(points):
    """Move one corner of the smallest triangle at random; keep what is not worse."""
    rng = np.random.default_rng(SEED)
    value, triple = smallest(points)
    step = STEP
    for _ in range(MOVES):
        trial = points.copy()
        trial[rng.choice(triple)] += rng.normal(0, step, 2)
        step *= DECAY
        if trial.min() < 0 or trial.sum(axis=1).max() > 1:
            continue
        found, where = smallest(trial)
        if found >= value:
            points, value, triple = trial, found, where
    return points


# EVOLVE-BLOCK-END


def smallest(points):
    """Twice the smallest area of a triple, and the triple."""
    n = len(points)
    i, j, k = np.array([(i, j, k) for i in range(n) for j in range(i + 1, n) for k in range(j + 1, n)]).T
    p, q, r = points[i], points[j], points[k]
    area = np.abs((q[:, 0] - p[:, 0]) * (r[:, 1] - p[:, 1]) - (q[:, 1] - p[:, 1]) * (r[:, 0] - p[:, 0]))
    worst = int(area.argmin())
    return area[worst], (i[worst], j[worst], k[worst])


def points(n):
    return improve(start(n)).tolist()
