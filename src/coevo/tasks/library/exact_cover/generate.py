"""Pieces of one to four numbers out of `size`, among them those of two hidden covers."""


def generate(size, rng):
    pieces = []
    for _ in range(2):
        numbers = list(range(size))
        rng.shuffle(numbers)
        while numbers:
            cut = rng.randint(1, min(4, len(numbers)))
            pieces.append(numbers[:cut])
            numbers = numbers[cut:]
    if size:
        extra = size // 3 if size > 12 else rng.randint(0, size)
        pieces += [rng.sample(range(size), rng.randint(1, min(4, size))) for _ in range(extra)]
    rng.shuffle(pieces)
    return size, pieces
