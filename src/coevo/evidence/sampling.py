"""Which rows are looked at in detail: whole groups, picked by a hash of what names them, so that the choice does not depend on
order, shards or the number of workers, and groups stay whole."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np

ROWS = 200_000
"""Rows of a source that are looked at in detail, about; all of a smaller one."""


def share_of(rows: int) -> float:
    """Share of groups to look at in a source of about this many rows."""
    return min(1.0, ROWS / rows) if rows > 0 else 1.0


def picked(keys: Sequence[Sequence[Any]], share: float, rows: int) -> np.ndarray:
    """bool of (rows,): the rows whose group is picked. `keys` are columns of what names a group (step, branch, group, ...)."""
    if share >= 1 or not rows:
        return np.ones(rows, dtype=bool)
    limit = int(share * (1 << 32))
    crc = zlib.crc32
    texts = (repr(key).encode("utf-8", "backslashreplace") for key in zip(*keys, strict=True)) if keys else ()
    found = np.fromiter((crc(text) < limit for text in texts), dtype=bool)
    return found if len(found) == rows else np.ones(rows, dtype=bool)
