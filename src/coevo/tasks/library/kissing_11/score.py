"""Number of integer vectors whose smallest distance is at least their largest length, decided in integers."""

from coevo.tasks.exact import Infeasible, integer, listed, vector

MOST, HIGHEST = 1000, 10**15
SMALL = 1 << 28
"""Below this, sums of 11 products fit into 64 bits, so that numpy is exact, too."""


def closest_pair(rows):
    """Smallest squared distance, exactly, with the pair that has it."""
    import numpy as np

    kind = np.int64 if max(abs(x) for row in rows for x in row) < SMALL else object
    points = np.array(rows, dtype=kind)
    best, pair = -1, (0, 0)
    for i in range(len(points) - 1):
        squared = ((points[i + 1 :] - points[i]) ** 2).sum(axis=1)
        j = int(squared.argmin())
        if best < 0 or squared[j] < best:
            best, pair = int(squared[j]), (i, i + 1 + j)
    return best, pair


def score(output, instance):
    dimension = instance["dimension"]
    items = listed(output, "centres")
    if not 1 <= len(items) <= MOST:
        raise Infeasible(f"there are {len(items)} vectors; there must be 1 to {MOST}")
    rows = [
        [
            integer(x, f"centres[{i}][{k}]", low=-HIGHEST, high=HIGHEST)
            for k, x in enumerate(vector(item, dimension, f"centres[{i}]"))
        ]
        for i, item in enumerate(items)
    ]
    lengths = [sum(x * x for x in row) for row in rows]
    if min(lengths) == 0:
        raise Infeasible(f"centres[{lengths.index(0)}] is the zero vector")
    longest = max(lengths)
    if len(rows) > 1:
        nearest, (i, j) = closest_pair(rows)
        if nearest < longest:
            raise Infeasible(
                f"centres[{i}] and centres[{j}] have the squared distance {nearest}, less than the squared length {longest} "
                f"of centres[{lengths.index(longest)}]"
            )
    return {"score": float(len(rows)), "feedback": f"{len(rows)} vectors, exactly valid"}
