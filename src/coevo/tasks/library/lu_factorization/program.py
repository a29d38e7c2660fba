import numpy as np


def factorize(matrix):
    n = len(matrix)
    upper = [list(map(float, row)) for row in matrix]
    lower = [[0.0] * n for _ in range(n)]
    order = list(range(n))
    for step in range(n):
        pivot = max(range(step, n), key=lambda row: abs(upper[row][step]))
        upper[step], upper[pivot] = upper[pivot], upper[step]
        lower[step], lower[pivot] = lower[pivot], lower[step]
        order[step], order[pivot] = order[pivot], order[step]
        lower[step][step] = 1.0
        if upper[step][step] == 0:
            continue
        for row in range(step + 1, n):
            factor = upper[row][step] / upper[step][step]
            lower[row][step] = factor
            upper[row][step] = 0.0
            for column in range(step + 1, n):
                upper[row][column] -= factor * upper[step][column]
    return order, np.array(lower), np.array(upper)
