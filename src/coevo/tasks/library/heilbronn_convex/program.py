"""Points whose smallest triangle is large for their hull: two rings, then random moves that do not make it worse."""

import numpy as np

# EVOLVE-BLOCK-START
INNER_SHARE = 0.4  # share of the points on the inner ring
INNER_RADIUS = 0.5
INNER_TURN = 0.3  # radians by which the inner ring is turned
STRETCH = 1.2  # width of both rings over their height
SEED = 5
MOVES = 150  # random moves tried
STEP = 0.1  # standard deviation of the first move
DECAY = 0.98  # every move is smaller than the one before by this factor


def start(n):
    """Points on an outer and an inner ellipse."""
    inner = int(n * INNER_SHARE)
    angles = [2 * np.pi * i / (n - inner) for i in range(n - inner)]
    points = [(STRETCH * np.cos(a), np.sin(a)) for a in angles]
    for i in range(inner):
        a = 2 * np.pi * i / inner + INNER_TURN
        points.append((INNER_RADIUS * STRETCH * np.cos(a), INNER_RADIUS * np.sin(a)))
    return np.array(points)


def improve(points):
    """Move one corner of the smallest triangle at random; keep what is not worse."""
    rng = np.random.default_rng(SEED)
    value, triple = ratio(points)
    step = STEP
    for _ in range(MOVES):
        trial = points.copy()
        trial[rng.choice(triple)] += rng.normal(0, step, 2)
        step *= DECAY
        found, where = ratio(trial)
        if found >= value:
            points, value, triple = trial, found, where
    return points


# EVOLVE-BLOCK-END


def hull_area(points):
    """Twice the area of the convex hull (Andrew's monotone chain)."""
    order = sorted(map(tuple, points))

    def chain(path):
        hull = []
        for p in path:
            while len(hull) > 1 and cross(hull[-2], hull[-1], p) <= 0:
                hull.pop()
            hull.append(p)
        return hull[:-1]

    hull = chain(order) + chain(order[::-1])
    return sum(p[0] * q[1] - p[1] * q[0] for p, q in zip(hull, hull[1:] + hull[:1], strict=True))


def cross(o, a, b):
    return (a[0] - o[0]) * (b[1] - o[1]) - (a[1] - o[1]) * (b[0] - o[0])


def ratio(points):
    """Smallest area of a triple over the area of the hull, and the triple."""
    n = len(points)
    i, j, k = np.array([(i, j, k) for i in range(n) for j in range(i + 1, n) for k in range(j + 1, n)]).T
    p, q, r = points[i], points[j], points[k]
    area = np.abs((q[:, 0] - p[:, 0]) * (r[:, 1] - p[:, 1]) - (q[:, 1] - p[:, 1]) * (r[:, 0] - p[:, 0]))
    worst = int(area.argmin())
    return area[worst] / hull_area(points), (i[worst], j[worst], k[worst])


def points(n):
    return improve(start(n)).tolist()
