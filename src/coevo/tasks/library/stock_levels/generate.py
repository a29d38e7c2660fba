"""`size` shelves and about as many commands, half of them sums; small sizes may have none."""


def generate(size, rng):
    bound = rng.choice([1, 10**6])
    lines = [" ".join(str(rng.randint(0, bound)) for _ in range(size))]
    count = size if size > 1000 else rng.choice([0, size, 2 * size])
    for _ in range(count):
        if rng.random() < 0.5:
            lines.append(f"add {rng.randint(1, size)} {rng.randint(-bound, bound)}")
        else:
            first, last = sorted(rng.randint(1, size) for _ in range(2))
            lines.append(f"sum {first} {last}")
    return f"{size} {count}\n" + "\n".join(lines) + "\n"
