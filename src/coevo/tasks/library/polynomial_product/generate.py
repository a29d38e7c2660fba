"""Two polynomials of about `size` coefficients: small, large, or mostly zero."""


def generate(size, rng):
    def polynomial(length):
        bound = rng.choice([1, 9, 10**9])
        zeros = rng.choice([0.0, 0.0, 0.8])
        return [0 if rng.random() < zeros else rng.randint(-bound, bound) for _ in range(length)]

    return polynomial(size), polynomial(size if size > 200 else rng.randint(size // 2, size))
