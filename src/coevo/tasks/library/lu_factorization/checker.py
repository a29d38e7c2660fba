"""Any factorization that meets the statement's conditions is right; `expected` is not used."""

import numpy as np


def check(output, expected, arguments):
    (matrix,) = arguments
    n = len(matrix)
    if not isinstance(output, (tuple, list)) or len(output) != 3:
        return wrong("expected a tuple (order, lower, upper)")
    order, lower, upper = output
    try:
        order = [int(row) for row in order] if all(row == int(row) for row in order) else []
        lower, upper = (np.asarray(part, dtype=np.float64) for part in (lower, upper))
    except (TypeError, ValueError, OverflowError):
        return wrong("order must hold integers, lower and upper numbers")
    if sorted(order) != list(range(n)):
        return wrong(f"order must hold each of 0, ..., {n - 1} once")
    for name, part in (("lower", lower), ("upper", upper)):
        if part.shape != (n, n):
            return wrong(f"{name} has shape {part.shape}, expected {(n, n)}")
        if not np.isfinite(part).all():
            return wrong(f"{name} holds a value that is not finite")
    if np.any(np.diagonal(lower) != 1) or np.any(np.triu(lower, 1) != 0):
        return wrong("lower must have ones on its diagonal and zeros above it")
    if np.abs(lower).max() > 1 + 1e-9:
        return wrong(f"lower holds {np.abs(lower).max():.6g}, larger than 1 in absolute value")
    if np.any(np.tril(upper, -1) != 0):
        return wrong("upper must have zeros below its diagonal")
    with np.errstate(over="ignore", invalid="ignore"):
        error = np.abs(np.asarray(matrix)[order] - lower @ upper).max()
    if not error <= 1e-9 * n * np.abs(matrix).max():
        return wrong(f"matrix[order] and lower @ upper differ by {error:.3g}")
    return {"ok": True, "feedback": ""}


def wrong(reason):
    return {"ok": False, "feedback": reason}
