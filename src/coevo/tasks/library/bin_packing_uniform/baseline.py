"""No model: best fit, the classical online rule. It has nothing to spend `seconds` on."""


def pack(capacity, items, seconds=20.0):
    bins, count = [], 0
    open_bins = [[] for _ in range(capacity + 1)]  # by free space, oldest first
    for item in items:
        free = next((room for room in range(item, capacity + 1) if open_bins[room]), None)
        if free is None:
            chosen, free, count = count, capacity, count + 1
        else:
            chosen = open_bins[free].pop(0)
        bins.append(chosen)
        open_bins[free - item].append(chosen)
    return bins
