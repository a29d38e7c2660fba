"""`size` jobs with about three conditions each that follow a hidden order; one small input in five has a cycle."""


def generate(size, rng):
    hidden = list(range(size))
    rng.shuffle(hidden)
    pairs = []
    if size >= 2:
        for _ in range(rng.choice([size // 2, 3 * size]) if size <= 300 else 3 * size):
            i, j = sorted(rng.sample(range(size), 2))
            if size > 300:
                j = min(j, i + 10)
            pairs.append((hidden[i], hidden[j]))
        if size <= 300 and rng.random() < 0.5:
            pairs += [(hidden[i], hidden[i + 1]) for i in range(size - 1)]
        if size <= 300 and rng.random() < 0.2:
            i, j = sorted(rng.sample(range(size), 2))
            pairs += [(hidden[i], hidden[j]), (hidden[j], hidden[i])]
    rng.shuffle(pairs)
    return size, [a for a, _ in pairs], [b for _, b in pairs]
