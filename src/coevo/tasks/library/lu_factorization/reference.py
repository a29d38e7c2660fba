import numpy as np


def factorize(matrix):
    n = len(matrix)
    work = matrix.astype(np.float64)
    order = np.arange(n)
    for step in range(n - 1):
        pivot = step + int(np.argmax(np.abs(work[step:, step])))
        if work[pivot, step] == 0:
            continue
        if pivot != step:
            work[[step, pivot]] = work[[pivot, step]]
            order[[step, pivot]] = order[[pivot, step]]
        work[step + 1 :, step] /= work[step, step]
        work[step + 1 :, step + 1 :] -= np.outer(work[step + 1 :, step], work[step, step + 1 :])
    return order.tolist(), np.tril(work, -1) + np.eye(n), np.triu(work)
