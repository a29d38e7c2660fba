"""Online bin packing: every item goes where a priority is highest; opening a bin is one of the choices."""

# EVOLVE-BLOCK-START
TIGHT = 1.0  # weight of the gap that would be left
CURVE = 1.0  # exponent of that gap
WASTE = 5  # gaps below this are hard to fill later
PENALTY = 0.5  # for leaving such a gap
FULL = 1.0  # for filling a bin to the brim
NEW = 200.0  # reluctance to open a bin


def priority(gap, item, capacity):
    """How good it is to put `item` into an open bin so that `gap` is left. Higher is better."""
    value = -TIGHT * gap**CURVE
    if gap == 0:
        value += FULL
    elif gap < WASTE:
        value -= PENALTY
    return value


def opening(item, capacity):
    """How good it is to open a bin for `item`. The best open bin is compared with this."""
    return -NEW


# EVOLVE-BLOCK-END


def pack(capacity, items):
    bins = []
    count = 0
    open_bins = {}  # free space -> bins that have it, oldest first
    table = {}
    for item in items:
        best, value = None, opening(item, capacity)
        for free in open_bins:
            if free >= item:
                key = (free, item)
                if key not in table:
                    table[key] = priority(free - item, item, capacity)
                if table[key] > value:
                    best, value = free, table[key]
        if best is None:
            chosen, left = count, capacity - item
            count += 1
        else:
            chosen, left = open_bins[best].pop(0), best - item
            if not open_bins[best]:
                del open_bins[best]
        bins.append(chosen)
        open_bins.setdefault(left, []).append(chosen)
    return bins
