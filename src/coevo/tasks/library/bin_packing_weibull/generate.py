"""Own draws in the style of FunSearch: 5 sequences of 5000 items, Weibull with shape 3 and scale 45, bins of 100."""

from coevo.tasks.online import with_replays

SEQUENCES, LENGTH, CAPACITY, CUTS = 5, 5000, 100, 4


def instances(split, rng):
    def draw():
        return min(max(int(rng.weibullvariate(45, 3)), 1), CAPACITY)

    sequences = [[draw() for _ in range(LENGTH)] for _ in range(SEQUENCES)]
    return [{"capacity": CAPACITY, "items": items} for items in with_replays(sequences, CUTS, draw, rng)]
