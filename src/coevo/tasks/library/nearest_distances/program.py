import math

import numpy as np


def nearest_distances(points, queries, k):
    places = points.tolist()
    result = np.zeros((len(queries), k))
    for i, query in enumerate(queries.tolist()):
        distances = [math.dist(place, query) for place in places]
        result[i] = sorted(distances)[:k]
    return result
