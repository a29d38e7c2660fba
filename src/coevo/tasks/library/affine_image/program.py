from math import floor

import numpy as np


def transform(image, matrix, offset):
    rows, columns = image.shape
    pixels = image.tolist()
    (a, b), (c, d) = matrix.tolist()
    down, right = offset.tolist()
    result = np.zeros((rows, columns))

    def pixel(i, j):
        return pixels[i][j] if 0 <= i < rows and 0 <= j < columns else 0.0

    for row in range(rows):
        for column in range(columns):
            y = a * row + b * column + down
            x = c * row + d * column + right
            y0, x0 = floor(y), floor(x)
            fy, fx = y - y0, x - x0
            upper = (1 - fx) * pixel(y0, x0) + fx * pixel(y0, x0 + 1)
            lower = (1 - fx) * pixel(y0 + 1, x0) + fx * pixel(y0 + 1, x0 + 1)
            result[row, column] = (1 - fy) * upper + fy * lower
    return result
