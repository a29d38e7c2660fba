"""The points, with their hull outlined and the smallest triangles shaded."""

from itertools import combinations, pairwise

from matplotlib.patches import Polygon


def cross(p, q, r):
    return (q[0] - p[0]) * (r[1] - p[1]) - (q[1] - p[1]) * (r[0] - p[0])


def convex_hull(points):
    def chain(path):
        hull = []
        for p in path:
            while len(hull) > 1 and cross(hull[-2], hull[-1], p) <= 0:
                hull.pop()
            hull.append(p)
        return hull[:-1]

    order = sorted(points)
    return chain(order) + chain(order[::-1])


def draw(output, instance, axes):
    points = [tuple(float(value) for value in row) for row in output]
    triples = sorted(combinations(points, 3), key=lambda triple: abs(cross(*triple)))
    least, hull = abs(cross(*triples[0])), convex_hull(points)
    area = sum(cross(hull[0], p, q) for p, q in pairwise(hull))
    axes.add_patch(Polygon(hull, fill=False, linewidth=1.2, edgecolor="#333333"))
    for triple in triples:
        if abs(cross(*triple)) > least * (1 + 1e-6):
            break
        axes.add_patch(Polygon(triple, facecolor="#c8553d", edgecolor="#c8553d", alpha=0.18, linewidth=0.6))
    axes.scatter([p[0] for p in points], [p[1] for p in points], s=26, color="#2970b0", edgecolors="#17456b", zorder=2)
    axes.autoscale_view()
    axes.set_aspect("equal")
    axes.set_axis_off()
    axes.set_title(f"{len(points)} points, smallest triangle over hull {least / area:.8f}", fontsize=10)
