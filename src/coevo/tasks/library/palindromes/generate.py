"""`size` letters: random, or long runs and repeated blocks with a few damaged places."""


def generate(size, rng):
    if size <= 200 and rng.random() < 0.5:
        letters = rng.choice(["a", "ab", "abcd"])
        return ("".join(rng.choice(letters) for _ in range(size)),)
    block = rng.choice(["a", "a", "ab", "aba"])
    text = list((block * size)[:size])
    for _ in range(size // 100):
        text[rng.randrange(size)] = "c"
    return ("".join(text),)
