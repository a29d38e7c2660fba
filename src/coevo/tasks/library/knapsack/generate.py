"""`size` items; the capacity holds about a third of them. Weights of zero and items that are too heavy occur."""


def generate(size, rng):
    heaviest = rng.choice([8, 60]) if size <= 40 else 100
    items = [[rng.randint(0 if rng.random() < 0.1 else 1, heaviest), rng.randint(0, 100)] for _ in range(size)]
    if rng.random() < 0.2:
        items = [[weight, weight] for weight, _ in items]
    if items and rng.random() < 0.3:
        items[rng.randrange(size)] = [10000, 10**6]
    capacity = min(10000, sum(weight for weight, _ in items if weight < 10000) // 3)
    return (capacity if size > 40 else rng.choice([0, capacity, capacity + heaviest])), items
