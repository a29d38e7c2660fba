"""`size` expressions; with a larger size they are longer, up to about 300 characters."""


def expression(length, rng):
    if length <= 1:
        return str(rng.choice([0, 1, 2, 7, rng.randint(0, 99), rng.randint(0, 99)]))
    left = rng.randint(1, length - 1)
    gap = rng.choice(["", " "])
    text = expression(left, rng) + gap + rng.choice("++--**/") + gap + expression(length - left, rng)
    return f"({text})" if rng.random() < 0.35 else text


def generate(size, rng):
    longest = min(70, 3 + size)
    shortest = longest - 10 if size > 100 else 1
    return "".join(expression(rng.randint(shortest, longest), rng) + "\n" for _ in range(size))
