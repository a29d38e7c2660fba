"""Wires from left to right, comparators as vertical bars in as few layers as fit."""


def draw(output, instance, axes):
    n = instance["n"]
    ready = [0] * n
    x = 0.0
    layers = {}
    for i, j in output:
        layer = max(ready[i], ready[j])
        ready[i] = ready[j] = layer + 1
        layers.setdefault(layer, []).append((i, j))
    for layer in sorted(layers):
        columns = []
        for i, j in sorted(layers[layer]):
            column = next((c for c, top in enumerate(columns) if top < i), len(columns))
            columns[column : column + 1] = [j]
            at = x + 0.25 * column
            axes.plot([at, at], [i, j], color="#17456b", linewidth=1, marker="o", markersize=2.5, zorder=2)
        x += 0.25 * len(columns) + 0.5
    for w in range(n):
        axes.plot([-0.5, x], [w, w], color="#999999", linewidth=0.6, zorder=1)
    axes.invert_yaxis()
    axes.set_axis_off()
    axes.set_title(f"{len(output)} comparators in {len(layers)} layers on {n} wires", fontsize=10)
