"""`size` commands over few accounts or many; transactions are short and sometimes nested."""


def generate(size, rng):
    accounts = 150 if size > 1000 else rng.choice([2, size // 2 + 1])
    names = [f"a{number}" for number in range(accounts)]
    lines = []
    if size > 1000:
        lines = [f"add {name} {rng.randint(0, 1000)}" for name in names]
    while len(lines) < size:
        command = rng.choice(["add", "add", "move", "move", "show", "begin", "commit", "rollback"])
        if command == "add":
            lines.append(f"add {rng.choice(names)} {rng.randint(-50, 100)}")
        elif command == "move":
            lines.append(f"move {rng.choice(names)} {rng.choice(names)} {rng.randint(0, 100)}")
        elif command == "show":
            lines.append(f"show {rng.choice(names)}")
        else:
            lines.append(command)
    return "".join(line + "\n" for line in lines)
