"""An interval that ends near `size` and covers most, some, or none of what lies below."""


def generate(size, rng):
    high = rng.randint(size - size // 10, size)
    if size > 10000:
        return rng.randint(0, high // 8), high
    return rng.choice([0, high, rng.randint(0, high), max(0, high - 3)]), high
