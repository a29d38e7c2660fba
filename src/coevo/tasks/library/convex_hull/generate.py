"""`size` points: in a square, near a circle, on a small grid (many on sides), or on one line; some repeated."""

from math import cos, pi, sin


def generate(size, rng):
    shape = rng.randrange(4) if size <= 500 else 0
    if shape == 0:
        points = [[rng.randint(-(10**6), 10**6), rng.randint(-(10**6), 10**6)] for _ in range(size)]
    elif shape == 1:
        angles = [rng.random() * 2 * pi for _ in range(size)]
        points = [[round(1000 * cos(angle)), round(1000 * sin(angle))] for angle in angles]
    elif shape == 2:
        points = [[rng.randint(-2, 2), rng.randint(-2, 2)] for _ in range(size)]
    else:
        dx, dy = rng.randint(-3, 3), rng.randint(-3, 3)
        points = [[5 + dx * step, -7 + dy * step] for step in (rng.randint(-50, 50) for _ in range(size))]
    for _ in range(size // 10):
        points[rng.randrange(size)] = list(rng.choice(points))
    return (points,)
