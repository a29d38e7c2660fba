"""The bound that a step function proves, in integers, rounded up."""

from fractions import Fraction

from coevo.tasks.exact import Infeasible, on_grid, products, round_up, vector

BITS = 60
TOLERANCE = 1e-9


def score(output, instance):
    n = instance["n"]
    heights = vector(output, n, "heights")
    largest = max(heights)
    if largest <= 0:
        raise Infeasible(f"no height is positive; the largest is {largest!r}")
    least = min(heights)
    if least < -TOLERANCE * largest:
        raise Infeasible(f"heights[{heights.index(least)}] is {least!r}; heights must not be negative")
    grid = on_grid([max(h, 0) for h in heights], BITS)
    sums = products(grid, grid)
    peak = max(sums)
    value = round_up(Fraction(2 * n * peak, sum(grid) ** 2))
    at = (sums.index(peak) + 1) / (2 * n) - 0.5
    return {"score": value, "feedback": f"bound {value:.10g}, the autoconvolution peaks at t = {at:.4g}"}
