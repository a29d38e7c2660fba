def edit_distance(a, b):
    table = {}
    for i in range(len(a) + 1):
        for j in range(len(b) + 1):
            if i == 0:
                table[i, j] = j
            elif j == 0:
                table[i, j] = i
            else:
                replace = table[i - 1, j - 1] + (0 if a[i - 1] == b[j - 1] else 1)
                table[i, j] = min(table[i - 1, j] + 1, table[i, j - 1] + 1, replace)
    return table[len(a), len(b)]
