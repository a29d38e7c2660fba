"""`size` letters: a repeated block, sometimes with a damaged end, or no pattern at all; large ones have long periods."""


def generate(size, rng):
    letters = rng.choice(["a", "ab", "abc"]) if size <= 1000 else "ab"
    least = size * 3 // 4 if size > 1000 else 1
    block = "".join(rng.choice(letters) for _ in range(rng.randint(least, max(least, size))))
    text = (block * (size // max(1, len(block)) + 1))[:size]
    if size and rng.random() < 0.3:
        where = rng.randrange(size)
        text = text[:where] + rng.choice(letters) + text[where + 1 :]
    return (text,)
