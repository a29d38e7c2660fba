def best_value(capacity, items):
    best = [0] * (capacity + 1)  # best[room]: largest value with total weight at most room
    for weight, value in items:
        if weight <= capacity:
            taken = [old + value for old in best[: capacity + 1 - weight]]
            best[weight:] = map(max, best[weight:], taken)
    return best[capacity]
