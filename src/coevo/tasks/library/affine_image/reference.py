import numpy as np


def transform(image, matrix, offset):
    rows, columns = image.shape
    framed = np.zeros((rows + 4, columns + 4))  # two pixels of zeros on each side
    framed[2:-2, 2:-2] = image
    row, column = np.arange(rows)[:, None], np.arange(columns)[None, :]
    y = matrix[0, 0] * row + matrix[0, 1] * column + offset[0]
    x = matrix[1, 0] * row + matrix[1, 1] * column + offset[1]
    y0, x0 = np.floor(y), np.floor(x)
    fy, fx = y - y0, x - x0
    i = np.clip(y0, -2, rows).astype(np.intp) + 2
    j = np.clip(x0, -2, columns).astype(np.intp) + 2
    upper = (1 - fx) * framed[i, j] + fx * framed[i, j + 1]
    lower = (1 - fx) * framed[i + 1, j] + fx * framed[i + 1, j + 1]
    return (1 - fy) * upper + fy * lower
