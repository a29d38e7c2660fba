def count_placements(n, blocked):
    holes = [0] * n
    for row, column in blocked:
        holes[row] |= 1 << column
    full = (1 << n) - 1

    def place(row, columns, falling, rising):
        if row == n:
            return 1
        count = 0
        free = full & ~(columns | falling | rising | holes[row])
        while free:
            bit = free & -free
            free ^= bit
            count += place(row + 1, columns | bit, (falling | bit) << 1, (rising | bit) >> 1)
        return count

    return place(0, 0, 0, 0)
