"""How much memory plain data takes, about: what decides how many judges a worker keeps."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np


def weight(*values: Any) -> int:
    """Bytes of plain data with all that is in it. What stands in it several times is counted as often: an upper estimate."""
    total, pending = 0, list(values)
    while pending:
        value = pending.pop()
        total += value.nbytes + 128 if isinstance(value, np.ndarray) else sys.getsizeof(value, 64)
        if isinstance(value, Mapping):
            pending += value.keys()
            pending += value.values()
        elif isinstance(value, Iterable) and not isinstance(value, str | bytes | np.ndarray):
            pending += value
    return total
