"""`size` people with few acquaintances, many, or a chain; some know themselves or are listed again."""


def generate(size, rng):
    links = []
    if size:
        shape = rng.randrange(3) if size <= 1000 else 1
        if shape == 0:
            links = [(rng.randrange(size), rng.randrange(size)) for _ in range(size // 2)]
        elif shape == 1:
            links = [(rng.randrange(size), rng.randrange(size)) for _ in range(size)]
        else:
            links = [(i, i + 1) for i in range(size - 1) if rng.random() < 0.9]
            rng.shuffle(links)
            links += links[: size // 10]
    return size, [one for one, _ in links], [other for _, other in links]
