def component_sizes(count, ones, others):
    parent = list(range(count))
    size = [1] * count
    for a, b in zip(ones, others, strict=True):
        while parent[a] != a:
            parent[a] = a = parent[parent[a]]
        while parent[b] != b:
            parent[b] = b = parent[parent[b]]
        if a != b:
            if size[a] < size[b]:
                a, b = b, a
            parent[b] = a
            size[a] += size[b]
    return sorted((size[person] for person in range(count) if parent[person] == person), reverse=True)
