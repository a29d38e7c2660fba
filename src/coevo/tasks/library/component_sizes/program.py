def component_sizes(count, ones, others):
    label = list(range(count))
    changed = True
    while changed:
        changed = False
        for k in range(len(ones)):
            a, b = ones[k], others[k]
            smallest = min(label[a], label[b])
            if label[a] != smallest or label[b] != smallest:
                label[a] = label[b] = smallest
                changed = True
    sizes = {}
    for person in range(count):
        sizes[label[person]] = sizes.get(label[person], 0) + 1
    return sorted(sizes.values(), reverse=True)
