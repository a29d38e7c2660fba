"""`size` requests, some keys far more popular than others; capacities from zero to more than all keys."""


def generate(size, rng):
    keys = rng.choice([2, 5, size // 2 + 1, 2 * size + 1]) if size <= 1000 else 600
    requests = [int(keys * rng.random() ** rng.choice([1, 2])) for _ in range(size)]
    if size > 1000:
        return rng.randint(120, 200), requests
    return rng.choice([0, 1, 2, keys // 2 + 1, keys + 1]), requests
