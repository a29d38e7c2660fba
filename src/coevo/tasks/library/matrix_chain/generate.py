"""`size` matrices; sometimes all dimensions are equal, small, or one alternates between thin and fat."""


def generate(size, rng):
    shape = rng.randrange(4)
    if shape == 0:
        sizes = [rng.randint(1, 3) for _ in range(size + 1)]
    elif shape == 1 and size <= 30:
        sizes = [rng.randint(1, 1000)] * (size + 1)
    elif shape == 2:
        sizes = [rng.randint(1, 5) if i % 2 else rng.randint(500, 1000) for i in range(size + 1)]
    else:
        sizes = [rng.randint(1, 1000) for _ in range(size + 1)]
    return (sizes,)
