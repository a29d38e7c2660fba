"""The packing: circles shaded by radius, in the unit square."""

from matplotlib.patches import Circle, Rectangle


def draw(output, instance, axes):
    circles = [tuple(float(value) for value in row) for row in output]
    largest = max((r for _, _, r in circles), default=0.0) or 1.0
    axes.add_patch(Rectangle((0, 0), 1, 1, fill=False, linewidth=1.2, edgecolor="#333333"))
    for x, y, r in circles:
        depth = 0.15 + 0.6 * r / largest
        axes.add_patch(Circle((x, y), r, facecolor=(0.16, 0.44, 0.69, depth), edgecolor="#17456b", linewidth=0.8))
    axes.set_xlim(-0.02, 1.02)
    axes.set_ylim(-0.02, 1.02)
    axes.set_aspect("equal")
    axes.set_axis_off()
    axes.set_title(f"{len(circles)} circles, sum of radii {sum(r for _, _, r in circles):.6f}", fontsize=10)
