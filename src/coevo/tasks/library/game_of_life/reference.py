def evolve(board, steps):
    cells = [[mark == "#" for mark in row] for row in board]
    for _ in range(steps):
        rows = len(cells)
        following = []
        for r, row in enumerate(cells):
            # Sums of three cells above each other, then of three such sums beside each other: the cell itself counts once.
            columns = list(map(sum, zip(cells[r - 1], row, cells[(r + 1) % rows], strict=True)))
            around = map(sum, zip(columns[-1:] + columns[:-1], columns, columns[1:] + columns[:1], strict=True))
            following.append([total == 3 or (total == 4 and alive) for total, alive in zip(around, row, strict=True)])
        cells = following
    return ["".join("#" if alive else "." for alive in row) for row in cells]
