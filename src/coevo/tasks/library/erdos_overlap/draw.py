"""The step function, and its overlap with the shifted complement."""


def draw(output, instance, axes):
    import numpy as np

    h = np.clip(np.asarray(output, dtype=float), 0, 1)
    n = len(h)
    overlap = np.correlate(1 - h, h, mode="full") * 2 / n
    axes.stairs(h, np.linspace(0, 2, n + 1), fill=True, alpha=0.35, color="#2970b0", label="h(t)")
    axes.plot(np.arange(-(n - 1), n) * 2 / n, overlap, color="#c8553d", linewidth=1.2, label="overlap at shift t")
    axes.set_xlabel("t")
    axes.legend(frameon=False, loc="upper left")
    axes.set_title(f"{n} pieces, bound {overlap.max():.7f}", fontsize=10)
