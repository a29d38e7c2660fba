"""A grid of about `size` by `size` cells and as many queries as cells, some of them empty, some over everything."""


def generate(size, rng):
    rows, columns = (size, size) if size > 20 else (rng.randint(1, size), rng.randint(1, size))
    bound = rng.choice([1, 10**6])
    grid = [[rng.randint(-bound, bound) for _ in range(columns)] for _ in range(rows)]
    queries = []
    for _ in range(size * size):
        top, bottom = sorted(rng.randint(0, rows) for _ in range(2))
        left, right = sorted(rng.randint(0, columns) for _ in range(2))
        queries.append([0, 0, rows, columns] if rng.random() < 0.05 else [top, left, bottom, right])
    return grid, queries
