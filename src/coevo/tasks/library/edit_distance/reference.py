def edit_distance(a, b):
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, start=1):
        diagonal, left = row[0], i
        row[0] = i
        for j, y in enumerate(b, start=1):
            above = row[j]
            if x != y:
                if above < diagonal:
                    diagonal = above
                if left < diagonal:
                    diagonal = left
                diagonal += 1
            row[j] = left = diagonal
            diagonal = above
    return row[-1]
