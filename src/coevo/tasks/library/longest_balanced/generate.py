"""`size` brackets: random, or balanced with a few damaged places."""


def generate(size, rng):
    kinds = rng.choice(["()", "()[]", "()[]{}"])
    if size <= 200 and rng.random() < 0.4:
        return ("".join(rng.choice(kinds) for _ in range(size)),)
    pairs = [kinds[i : i + 2] for i in range(0, len(kinds), 2)]
    text, waiting = [], []
    while len(text) < size:
        if not waiting or (len(waiting) < 6 and rng.random() < 0.5):
            pair = rng.choice(pairs)
            text.append(pair[0])
            waiting.append(pair[1])
        else:
            text.append(waiting.pop())
    for _ in range(size // 60):
        text[rng.randrange(size)] = rng.choice(kinds)
    return ("".join(text),)
