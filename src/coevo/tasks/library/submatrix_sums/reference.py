from itertools import accumulate


def rectangle_sums(grid, queries):
    corner = [[0] * (len(grid[0]) + 1)]  # corner[i][j]: the sum over the first i rows and j columns
    for row in grid:
        corner.append([above + along for above, along in zip(corner[-1], accumulate(row, initial=0), strict=True)])
    sums = []
    for top, left, bottom, right in queries:
        low, high = corner[top], corner[bottom]
        sums.append(high[right] - high[left] - low[right] + low[left])
    return sums
