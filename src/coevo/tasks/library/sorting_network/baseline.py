"""No model: Batcher's merge exchange, then hill climbing with random edits; whatever they break is mended and pruned."""

import random
import time


def inputs(n):
    """Wire w as an integer whose bit x is bit w of x: all 2^n inputs at once."""
    wires = []
    for w in range(n):
        pattern = ((1 << (1 << w)) - 1) << (1 << w)
        for doubling in range(w + 1, n):
            pattern |= pattern << (1 << doubling)
        wires.append(pattern)
    return wires


def batcher(n):
    """Merge exchange for any n (Knuth, The Art of Computer Programming 3, Algorithm 5.2.2M)."""
    network = []
    top = 1 << (n - 1).bit_length() - 1
    p = top
    while p:
        q, r, d = top, 0, p
        while True:
            network += [(i, i + d) for i in range(n - d) if i & p == r]
            if q == p:
                break
            d, q, r = q - p, q >> 1, p
        p >>= 1
    return network


def mended(network, wires, limit):
    """The comparators that swap something, then those that sort the rest; None if that takes more than `limit`."""
    wires, kept = list(wires), []
    bricks = [(i, i + 1) for turn in range(len(wires)) for i in range(turn % 2, len(wires) - 1, 2)]
    for i, j in [*network, *bricks]:
        if wires[i] & ~wires[j]:
            wires[i], wires[j] = wires[i] & wires[j], wires[i] | wires[j]
            kept.append((i, j))
            if len(kept) > limit:
                return None
    return kept


def edited(network, n, rng):
    """A copy with one to three random removals, rewirings, moves or insertions."""
    network = list(network)
    for _ in range(rng.randint(1, 3)):
        at, kind = rng.randrange(len(network)), rng.randrange(4)
        i, j = sorted(rng.sample(range(n), 2))
        if kind == 0 and len(network) > 1:
            del network[at]
        elif kind == 1:
            network[at] = (i, j)
        elif kind == 2:
            network.insert(rng.randrange(len(network)), network.pop(at))
        else:
            network.insert(at, (i, j))
    return network


def network(n, seconds=20.0):
    end = time.process_time() + seconds
    rng, wires = random.Random(0), inputs(n)
    best = batcher(n)
    while time.process_time() < end:
        best = mended(edited(best, n, rng), wires, len(best)) or best
    return best
