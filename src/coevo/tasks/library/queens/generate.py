"""A board of side `size` with up to `size` blocked squares."""


def generate(size, rng):
    holes = rng.randint(0, size) if size < 8 else size // 2
    return size, [[rng.randrange(size), rng.randrange(size)] for _ in range(holes)]
