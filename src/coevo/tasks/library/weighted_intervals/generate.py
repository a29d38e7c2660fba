"""`size` bookings within a horizon that makes them sparse or crowded; some touch end to start."""


def generate(size, rng):
    horizon = rng.choice([10, 10 * size + 10, 10**9]) if size <= 500 else 10**9
    longest = max(1, horizon // rng.choice([4, 40])) if size <= 500 else horizon // 15
    bookings = []
    for _ in range(size):
        start = rng.randrange(horizon)
        if bookings and rng.random() < 0.1:
            start = min(rng.choice(bookings)[1], horizon - 1)
        end = min(horizon, start + rng.randint(1, longest))
        bookings.append([start, end, rng.randint(1, 100)])
    return (bookings,)
