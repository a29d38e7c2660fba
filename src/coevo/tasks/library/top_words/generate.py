"""About `size` words of which few are frequent, in mixed case, with digits and marks between them."""


def word(rank):
    letters = "etaoinshr"
    text = ""
    rank += 1
    while rank:
        rank, digit = divmod(rank - 1, len(letters))
        text = letters[digit] + text
    return text


def generate(size, rng):
    different = 150 if size > 1000 else rng.choice([2, size // 3 + 1, size + 1])
    parts = []
    for _ in range(size):
        text = word(int(different * rng.random() ** 2))
        parts.append(rng.choice([text, text, text.upper(), text.capitalize()]))
        parts.append(rng.choice([" ", " ", " ", ", ", "\n", "-", " 42 ", "'", "...\n\n"]))
    return f"{rng.choice([0, 1, 3, 10, 1000]) if size <= 1000 else 50}\n{''.join(parts)}\n"
