"""Own draws in the style of OR-Library's binpack3 ("OR3"): 20 sequences of 500 items in 20..100, bins of 150."""

from coevo.tasks.online import with_replays

SEQUENCES, LENGTH, CAPACITY, CUTS = 20, 500, 150, 3


def instances(split, rng):
    def draw():
        return rng.randint(20, 100)

    sequences = [[draw() for _ in range(LENGTH)] for _ in range(SEQUENCES)]
    return [{"capacity": CAPACITY, "items": items} for items in with_replays(sequences, CUTS, draw, rng)]
