def chain_cost(sizes):
    count = len(sizes) - 1
    # left[i][d]: cost of the product of d + 1 matrices that begins at i; right[j][d]: of the one that ends before j.
    left = [[0] for _ in range(count + 1)]
    right = [[0] for _ in range(count + 1)]
    for length in range(2, count + 1):
        for i in range(count - length + 1):
            j = i + length
            ends = sizes[i] * sizes[j]
            best = min(a + b + ends * k for a, b, k in zip(left[i], reversed(right[j]), sizes[i + 1 : j], strict=True))
            left[i].append(best)
            right[j].append(best)
    return left[0][-1] if count > 0 else 0
