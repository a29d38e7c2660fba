"""No model: random greedy completions (the comparator that swaps most inputs, with noise) of cut-off best networks."""

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


def complete(prefix, n, most, noise, rng):
    """A network that begins with `prefix` and has fewer than `most` comparators, or None."""
    wires, network = inputs(n), list(prefix)
    for i, j in prefix:
        wires[i], wires[j] = wires[i] & wires[j], wires[i] | wires[j]
    pairs = [(i, j) for i in range(n) for j in range(i + 1, n)]
    swaps = {(i, j): (wires[i] & ~wires[j]).bit_count() for i, j in pairs}
    while any(swaps.values()):
        if len(network) + 1 >= most:
            return None
        i, j = max(pairs, key=lambda pair: swaps[pair] * rng.uniform(1 - noise, 1))
        wires[i], wires[j] = wires[i] & wires[j], wires[i] | wires[j]
        network.append((i, j))
        for a, b in pairs:
            if a in (i, j) or b in (i, j):
                swaps[a, b] = (wires[a] & ~wires[b]).bit_count()
    return network


def network(n, seconds=20.0):
    rng = random.Random(0)
    best = [(i, i + 1) for turn in range(n) for i in range(turn % 2, n - 1, 2)]
    while time.process_time() < seconds:
        keep = rng.randrange(len(best)) if rng.random() < 0.7 else 0
        found = complete(best[:keep], n, len(best) + 1, rng.choice((0.05, 0.2, 0.5)), rng)
        best = found or best
    return best
