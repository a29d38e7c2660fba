"""`size` integers, few different ones or many. `rng` is a `random.Random`; return the text of standard input."""


def generate(size, rng):
    bound = rng.choice([1, 10, 10**9]) if size <= 1000 else 60
    return "".join(f"{number}\n" for number in [size, *(rng.randint(-bound, bound) for _ in range(size))])
