"""The points in their triangle, with the smallest triangles shaded."""

from itertools import combinations

from matplotlib.patches import Polygon


def area(p, q, r):
    return abs((q[0] - p[0]) * (r[1] - p[1]) - (q[1] - p[1]) * (r[0] - p[0]))


def draw(output, instance, axes):
    points = [tuple(float(value) for value in row) for row in output]
    triples = sorted(combinations(points, 3), key=lambda triple: area(*triple))
    least = area(*triples[0])
    axes.add_patch(Polygon([(0, 0), (1, 0), (0, 1)], fill=False, linewidth=1.2, edgecolor="#333333"))
    for triple in triples:
        if area(*triple) > least * (1 + 1e-6):
            break
        axes.add_patch(Polygon(triple, facecolor="#c8553d", edgecolor="#c8553d", alpha=0.18, linewidth=0.6))
    axes.scatter([p[0] for p in points], [p[1] for p in points], s=26, color="#2970b0", edgecolors="#17456b", zorder=2)
    axes.set_xlim(-0.03, 1.03)
    axes.set_ylim(-0.03, 1.03)
    axes.set_aspect("equal")
    axes.set_axis_off()
    axes.set_title(f"{len(points)} points, smallest triangle {least:.8f}", fontsize=10)
