"""`size` numbers: scattered, rising, falling, or few different ones."""


def generate(size, rng):
    bound = rng.choice([1, 1000, 10**6])
    numbers = [round(rng.uniform(-bound, bound), rng.choice([0, 1, 3])) for _ in range(size)]
    shape = rng.randrange(4) if size <= 1000 else 0
    if shape == 1:
        numbers.sort()
    elif shape == 2:
        numbers.sort(reverse=True)
    return f"{size}\n{' '.join(f'{number:.3f}' for number in numbers)}\n"
