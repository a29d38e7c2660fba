"""Two strings of at most `size` letters: unrelated, or the second a damaged copy of the first."""


def generate(size, rng):
    letters = rng.choice(["ab", "abcd", "abcdefghijklmnopqrstuvwxyz"])
    a = [rng.choice(letters) for _ in range(size)]
    if rng.random() < 0.5:
        b = [rng.choice(letters) for _ in range(rng.randint(size // 2, size))]
    else:
        b = list(a)
        for _ in range(rng.randint(0, size // 5 + 1)):
            where = rng.randint(0, len(b))
            if rng.random() < 0.5:
                b[where : where + 1] = []
            elif len(b) < size:
                b.insert(where, rng.choice(letters))
    return "".join(a), "".join(b)
