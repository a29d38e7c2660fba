"""Lists of `size` integers; small value ranges make ties, and some lists are nearly sorted or reversed."""


def generate(size, rng):
    bound = rng.choice([1, 3, size + 1, 10**9])
    values = [rng.randint(-bound, bound) for _ in range(size)]
    shape = rng.randrange(4)
    if shape == 1:
        values.sort()
        for _ in range(size // 10):
            i = rng.randrange(size)
            values[i] = rng.randint(-bound, bound)
    elif shape == 2:
        values.sort(reverse=True)
    return (values,)
