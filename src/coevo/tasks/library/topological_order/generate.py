"""`size` jobs with about three pairs each that follow a hidden order; one input in five has a cycle."""


def generate(size, rng):
    hidden = list(range(size))
    rng.shuffle(hidden)
    before = []
    if size >= 2:
        for _ in range(rng.choice([size // 2, 3 * size]) if size <= 300 else 3 * size):
            i, j = sorted(rng.sample(range(size), 2))
            if size > 300:
                j = min(j, i + 10)
            before.append([hidden[i], hidden[j]])
        if size <= 300 and rng.random() < 0.5:
            before += [[hidden[i], hidden[i + 1]] for i in range(size - 1)]
        if size <= 300 and rng.random() < 0.2:
            i, j = sorted(rng.sample(range(size), 2))
            before += [[hidden[i], hidden[j]], [hidden[j], hidden[i]]]
    rng.shuffle(before)
    return size, before
