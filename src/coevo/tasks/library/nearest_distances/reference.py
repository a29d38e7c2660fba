import numpy as np


def nearest_distances(points, queries, k):
    squares = np.zeros((len(queries), len(points)))
    for axis in range(points.shape[1]):
        squares += (queries[:, axis, None] - points[None, :, axis]) ** 2
    nearest = np.partition(squares, k - 1, axis=1)[:, :k]
    return np.sqrt(np.sort(nearest, axis=1))
