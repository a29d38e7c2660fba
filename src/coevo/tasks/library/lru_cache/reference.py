def evictions(capacity, requests):
    cache = {}  # keys in the order of their last request: dicts keep it
    hits = 0
    dropped = []
    if capacity == 0:
        return [0, []]
    for key in requests:
        if key in cache:
            hits += 1
            del cache[key]
        elif len(cache) == capacity:
            oldest = next(iter(cache))
            del cache[oldest]
            dropped.append(oldest)
        cache[key] = None
    return [hits, dropped]
