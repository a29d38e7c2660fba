"""`size` people with few links, many links, or a chain; self-links and repeats occur."""


def generate(size, rng):
    links = []
    if size:
        shape = rng.randrange(3)
        if shape == 0:
            links = [[rng.randrange(size), rng.randrange(size)] for _ in range(size // 2)]
        elif shape == 1:
            links = [[rng.randrange(size), rng.randrange(size)] for _ in range(2 * size)]
        else:
            links = [[i, i + 1] for i in range(size - 1) if rng.random() < 0.9]
            rng.shuffle(links)
            links += links[: size // 10]
    return size, links
