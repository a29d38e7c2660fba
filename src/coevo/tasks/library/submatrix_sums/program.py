def rectangle_sums(grid, queries):
    sums = []
    for top, left, bottom, right in queries:
        total = 0
        for row in grid[top:bottom]:
            total += sum(row[left:right])
        sums.append(total)
    return sums
