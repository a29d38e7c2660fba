"""Lists of `size` integers, few different ones or many. `rng` is a `random.Random`; return the tuple of arguments."""


def generate(size, rng):
    bound = rng.choice([1, 5, 100]) if size <= 200 else 20
    return ([rng.randint(-bound, bound) for _ in range(size)],)
