"""`size` words and as many prefixes, mostly of such words, over a few letters or many."""


def generate(size, rng):
    letters = rng.choice(["ab", "abcdefgh", "abcdefghijklmnopqrstuvwxyz"]) if size <= 1000 else "abcdefgh"

    def word(longest):
        return "".join(rng.choice(letters) for _ in range(rng.randint(1, longest)))

    words = [word(rng.choice([3, 20])) for _ in range(size)]
    prefixes = []
    for _ in range(size):
        known = rng.choice(words)
        prefixes.append(known[: rng.randint(1, len(known))] if rng.random() < 0.7 else word(4))
    return f"{size} {size}\n" + "".join(f"{line}\n" for line in words + prefixes)
