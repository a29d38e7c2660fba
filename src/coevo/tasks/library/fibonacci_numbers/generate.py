"""At most 100 indices up to `size`; the largest is `size` itself."""


def generate(size, rng):
    if size == 0:
        return (rng.choice([[], [0]]),)
    indices = [rng.randint(0, size) for _ in range(min(size, 99))] + [size]
    rng.shuffle(indices)
    return (indices,)
