"""`size` values and twice as many ranges, short or long; about one in eight is empty or covers everything."""


def generate(size, rng):
    bound = rng.choice([1, 100, 10**9])
    values = [rng.randint(-bound, bound) for _ in range(size)]
    reach = rng.choice([size, size // 8 + 1]) if size <= 1000 else size // 8
    lefts, rights = [], []
    for _ in range(2 * size):
        left = rng.randint(0, size)
        right = min(size, left + rng.randint(0, reach))
        kind = rng.randrange(16) if size <= 1000 else 2
        if kind == 0:
            right = left
        elif kind == 1:
            left, right = 0, size
        lefts.append(left)
        rights.append(right)
    return values, lefts, rights
