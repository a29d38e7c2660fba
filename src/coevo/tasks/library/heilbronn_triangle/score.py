"""Smallest triangle over the container's area, after the least scaling that brings every point inside."""

from fractions import Fraction

from coevo.tasks.exact import matrix, round_down, scaled_rows, smallest_triangle, triangle_shrink


def score(output, instance):
    points, k = scaled_rows(matrix(output, instance["n"], 2, "points"))
    area, triple = smallest_triangle(points)
    factor, outside = triangle_shrink(points, 1 << k)
    value = round_down(Fraction(area, 1 << 2 * k) * factor**2)
    feedback = f"smallest triangle {value:.10g}, at points {', '.join(map(str, triple))}"
    if factor < 1 - 1e-15:
        feedback += f"; {outside}, so all points were scaled about the centroid by {float(factor):.12g}"
    return {"score": value, "feedback": feedback, "scaled_by": float(factor)}
