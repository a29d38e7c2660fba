"""A sorting network from passes with shrinking gaps; comparators that never swap anything are left out."""

# EVOLVE-BLOCK-START
SHRINK = 1.7  # every gap is the one before over this
PASSES = 2  # passes per gap
PHASE = 1  # which comparators of a pass come first
FIRST = 0.6  # the first gap, as a share of the number of wires


def candidates(n):
    """Comparators in the order in which they are tried; the caller adds passes that sort whatever is left."""
    gap = max(1, int(n * FIRST))
    while True:
        for turn in range(PASSES):
            for offset in range(2):
                for i in range(n - gap):
                    if (i // gap + offset + turn * PHASE) % 2 == 0:
                        yield i, i + gap
        if gap == 1:
            return
        gap = max(1, int(gap / SHRINK))


# EVOLVE-BLOCK-END


def network(n):
    wires = []
    for w in range(n):
        pattern = ((1 << (1 << w)) - 1) << (1 << w)
        for doubling in range(w + 1, n):
            pattern |= pattern << (1 << doubling)
        wires.append(pattern)
    chosen = []
    last = [(i, i + 1) for turn in range(n) for i in range(turn % 2, n - 1, 2)]
    for i, j in [*candidates(n), *last]:
        if wires[i] & ~wires[j]:  # on some input it swaps
            wires[i], wires[j] = wires[i] & wires[j], wires[i] | wires[j]
            chosen.append((i, j))
    return chosen
