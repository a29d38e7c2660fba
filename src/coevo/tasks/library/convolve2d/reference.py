import numpy as np


def convolve(image, kernel):
    if image.size < kernel.size:
        image, kernel = kernel, image
    h, w = image.shape
    p, q = kernel.shape
    result = np.zeros((h + p - 1, w + q - 1))
    for a in range(p):
        for b in range(q):
            result[a : a + h, b : b + w] += kernel[a, b] * image
    return result
