"""Smallest triangle over the area of the convex hull, exactly; affine maps change nothing."""

from fractions import Fraction

from coevo.tasks.exact import Infeasible, doubled_hull_area, matrix, round_down, scaled_rows, smallest_triangle


def score(output, instance):
    points, _ = scaled_rows(matrix(output, instance["n"], 2, "points"))
    hull = doubled_hull_area(points)
    if hull == 0:
        raise Infeasible("all points lie on one line, so their convex hull has no area")
    area, triple = smallest_triangle(points)
    value = round_down(Fraction(area, hull))
    return {
        "score": value,
        "feedback": f"smallest triangle over hull {value:.10g}, at points {', '.join(map(str, triple))}",
    }
