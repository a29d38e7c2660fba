"""`size` places with about four roads each: random, or a long line with short cuts; some places cannot be reached."""

from itertools import pairwise


def generate(size, rng):
    longest = rng.choice([0, 10, 10**6]) if size <= 200 else rng.choice([50, 10**6])
    roads = []
    if rng.random() < 0.5:
        order = list(range(size))
        rng.shuffle(order)
        roads += [[a, b, rng.randint(0, longest)] for a, b in pairwise(order)]
        source = order[0]
        shortcuts = 3 * size
    else:
        source = rng.randrange(size)
        shortcuts = rng.choice([size, 4 * size])
    for _ in range(shortcuts):
        roads.append([rng.randrange(size), rng.randrange(size), rng.randint(0, longest)])
    rng.shuffle(roads)
    return size, roads, source
