import numpy as np


def convolve(image, kernel):
    h, w = image.shape
    p, q = kernel.shape
    result = np.zeros((h + p - 1, w + q - 1))
    for i in range(h):
        for j in range(w):
            result[i : i + p, j : j + q] += image[i, j] * kernel
    return result
