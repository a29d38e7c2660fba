"""The step function and its autoconvolution, both over the integral of the function."""


def draw(output, instance, axes):
    import numpy as np

    h = np.maximum(np.asarray(output, dtype=float), 0)
    n = len(h)
    h = h * 2 * n / h.sum()
    conv = np.concatenate([[0.0], np.convolve(h, h) / (2 * n), [0.0]])
    axes.stairs(h, np.linspace(-0.25, 0.25, n + 1), fill=True, alpha=0.35, color="#2970b0", label="f")
    axes.plot(np.linspace(-0.5, 0.5, 2 * n + 1), conv, color="#c8553d", linewidth=1.2, label="f * f")
    axes.set_xlabel("t")
    axes.set_ylim(0, min(h.max(), 4 * conv.max()) * 1.05)
    axes.legend(frameon=False, loc="upper right")
    axes.set_title(f"{n} pieces, bound {conv.max():.6f}", fontsize=10)
