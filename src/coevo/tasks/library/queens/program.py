def count_placements(n, blocked):
    def safe(columns, column):
        row = len(columns)
        if [row, column] in blocked:
            return False
        for other_row in range(row):
            other = columns[other_row]
            if other == column or abs(other - column) == row - other_row:
                return False
        return True

    def place(columns):
        if len(columns) == n:
            return 1
        count = 0
        for column in range(n):
            if safe(columns, column):
                count += place([*columns, column])
        return count

    return place([])
