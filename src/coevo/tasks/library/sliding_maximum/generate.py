"""`size` values that rise, fall, repeat or jump; widths from 1 to a little beyond `size`, moderate for large sizes."""


def generate(size, rng):
    bound = rng.choice([2, 1000, 10**9])
    values = [rng.randint(-bound, bound) for _ in range(size)]
    shape = rng.randrange(4)
    if shape == 1:
        values.sort()
    elif shape == 2:
        values.sort(reverse=True)
    if size > 1000:
        return values, rng.randint(150, 250)
    return values, rng.choice([1, rng.randint(1, size + 2), max(1, size)])
