"""A board of about `size` by `size` cells, empty, full, sparse or crowded, and up to ten steps."""


def generate(size, rng):
    rows, columns = (size, size) if size > 30 else (rng.randint(1, size), size)
    density = rng.choice([0.0, 0.1, 0.35, 0.6, 1.0]) if size <= 30 else 0.35
    board = ["".join("#" if rng.random() < density else "." for _ in range(columns)) for _ in range(rows)]
    return board, 6 if size > 30 else rng.randint(0, 10)
