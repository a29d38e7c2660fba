"""Lists of `size` integers with many ties or few, and a target that is often reachable."""


def generate(size, rng):
    bound = rng.choice([1, size // 2 + 1, 10**9])
    values = [rng.randint(-bound, bound) for _ in range(size)]
    if size >= 2 and rng.random() < 0.7:
        target = sum(rng.sample(values, 2))
    else:
        target = rng.randint(-2 * bound, 2 * bound)
    return values, target
