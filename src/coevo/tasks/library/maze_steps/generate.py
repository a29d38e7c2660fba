"""A maze of side `size`: open, cluttered, or with long walls that have one door each; some have no way."""


def generate(size, rng):
    rows, columns = (size, size) if size > 30 else (rng.randint(1, size), size)
    walls = rng.choice([0.0, 0.25, 0.4]) if size <= 30 else 0.2
    maze = [["#" if rng.random() < walls else "." for _ in range(columns)] for _ in range(rows)]
    if size > 30 or rng.random() < 0.4:
        for row in range(1, rows, max(2, rows // 8)):
            maze[row] = ["#"] * columns
            maze[row][rng.randrange(columns)] = "."
    start, end = rng.sample(range(rows * columns), 2) if size <= 30 else (0, rows * columns - 1)
    maze[start // columns][start % columns] = "S"
    maze[end // columns][end % columns] = "E"
    return f"{rows} {columns}\n" + "".join("".join(line) + "\n" for line in maze)
