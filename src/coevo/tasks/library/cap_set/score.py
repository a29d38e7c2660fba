"""Number of vectors, after an exact check of every pair's third point."""

from coevo.tasks.exact import Infeasible, integer, listed, vector


def score(output, instance):
    import numpy as np

    n = instance["n"]
    items = listed(output, "cap")
    if len(items) > 3**n:
        raise Infeasible(f"the cap has {len(items)} vectors; there are only {3**n}")
    rows = [
        [integer(x, f"cap[{i}][{k}]", low=0, high=2) for k, x in enumerate(vector(item, n, f"cap[{i}]"))]
        for i, item in enumerate(items)
    ]
    owner = np.full(3**n, -1)
    weights = 3 ** np.arange(n)
    points = np.array(rows, dtype=np.int64).reshape(len(rows), n)
    for i, code in enumerate(points @ weights):
        if owner[code] >= 0:
            raise Infeasible(f"cap[{owner[code]}] and cap[{i}] are the same vector {rows[i]}")
        owner[code] = i
    for i in range(len(points)):
        third = owner[(-(points[i] + points[i + 1 :]) % 3) @ weights]
        hits = np.flatnonzero(third >= 0)
        if hits.size:
            j, k = i + 1 + int(hits[0]), int(third[hits[0]])
            raise Infeasible(f"cap[{i}], cap[{j}] and cap[{k}] lie on a line: {rows[i]}, {rows[j]}, {rows[k]}")
    return {"score": float(len(rows)), "feedback": f"a cap set of {len(rows)} vectors in dimension {n}"}
