"""`size` places with up to four roads each: random, or a long line with short cuts; some places cannot be reached."""

from itertools import pairwise


def generate(size, rng):
    longest = rng.choice([0, 10, 10**6]) if size <= 200 else rng.choice([50, 10**6])
    roads = []
    if rng.random() < 0.5:
        order = list(range(size))
        rng.shuffle(order)
        roads += pairwise(order)
        source = order[0]
        shortcuts = 3 * size
    else:
        source = rng.randrange(size)
        shortcuts = rng.choice([size, 4 * size]) if size <= 200 else 4 * size
    roads += [(rng.randrange(size), rng.randrange(size)) for _ in range(shortcuts)]
    rng.shuffle(roads)
    lengths = [rng.randint(0, longest) for _ in roads]
    return size, [start for start, _ in roads], [end for _, end in roads], lengths, source
