"""The bound that a step function proves, after an exact repair of its integral, in integers, rounded up."""

from fractions import Fraction

from coevo.tasks.exact import Infeasible, on_grid, products, round_up, vector

BITS = 60
TOLERANCE = 1e-9


def repaired(grid, one):
    """Integers f and the unit u, with 0 <= f <= u and sum f / u = n/2 exactly."""
    n, total = len(grid), sum(grid)
    if 2 * total > n * one:  # h * (n/2) / total
        return [h * n for h in grid], 2 * total
    missing, room = n * one - 2 * total, 2 * (n * one - total)  # h + (1 - h) * missing / room
    return [h * room + (one - h) * missing for h in grid], one * room


def score(output, instance):
    n = instance["n"]
    heights = vector(output, n, "heights")
    for i, h in enumerate(heights):
        if not -TOLERANCE <= h <= 1 + TOLERANCE:
            raise Infeasible(f"heights[{i}] is {h!r}; it must be in [0, 1]")
    one = 1 << BITS
    grid = on_grid([min(max(h, 0), 1) for h in heights], BITS, top=1)
    f, unit = repaired(grid, one)
    sums = products(f, [unit - x for x in reversed(f)])
    peak = max(sums)
    value = round_up(Fraction(2 * peak, n * unit * unit))
    offset = float(Fraction(2 * sum(grid), n * one)) - 1
    feedback = f"bound {value:.10g}, largest overlap at a shift of {n - 1 - sums.index(peak)} pieces"
    if abs(offset) > 1e-9:
        feedback += f"; the integral was {1 + offset:.10g} instead of 1 and was repaired"
    return {"score": value, "feedback": feedback}
