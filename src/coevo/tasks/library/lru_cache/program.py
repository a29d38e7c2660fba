def evictions(capacity, requests):
    cache = []
    hits = 0
    dropped = []
    for key in requests:
        if key in cache:
            hits += 1
            cache.remove(key)
        elif capacity == 0:
            continue
        elif len(cache) == capacity:
            dropped.append(cache.pop(0))
        cache.append(key)
    return [hits, dropped]
