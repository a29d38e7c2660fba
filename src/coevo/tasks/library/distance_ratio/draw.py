"""The points (their first two coordinates), with the closest pairs joined."""

from itertools import combinations
from math import dist


def draw(output, instance, axes):
    points = [tuple(float(value) for value in row) for row in output]
    pairs = list(combinations(points, 2))
    least, most = min(dist(p, q) for p, q in pairs), max(dist(p, q) for p, q in pairs)
    for p, q in pairs:
        if dist(p, q) < least * (1 + 1e-6):
            axes.plot([p[0], q[0]], [p[1], q[1]], color="#17456b", linewidth=0.9, zorder=1)
        elif dist(p, q) > most * (1 - 1e-6):
            axes.plot([p[0], q[0]], [p[1], q[1]], color="#c8553d", linewidth=0.5, linestyle="--", zorder=1)
    axes.scatter([p[0] for p in points], [p[1] for p in points], s=26, color="#2970b0", edgecolors="#17456b", zorder=2)
    axes.set_aspect("equal")
    axes.set_axis_off()
    axes.set_title(f"{len(points)} points, squared ratio {(most / least) ** 2:.6f}", fontsize=10)
