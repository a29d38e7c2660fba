"""`size` values and twice as many queries; about one query in eight is empty or covers everything."""


def generate(size, rng):
    bound = rng.choice([1, 100, 10**9])
    values = [rng.randint(-bound, bound) for _ in range(size)]
    reach = rng.choice([size, size // 8 + 1])
    queries = []
    for _ in range(2 * size):
        left = rng.randint(0, size)
        kind = rng.randrange(16)
        if kind == 0:
            queries.append([left, left])
        elif kind == 1:
            queries.append([0, size])
        else:
            queries.append([left, min(size, left + rng.randint(0, reach))])
    return values, queries
