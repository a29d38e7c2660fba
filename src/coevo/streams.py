"""Counter-based randomness: every decision draws from its own stream, named by (seed, purpose, step).

A stream depends on its name alone, never on what was drawn before, so decisions made on one worker or
eight, before a kill or after, are the same.
"""

from __future__ import annotations

import hashlib
import random

import numpy as np


def stream_seed(seed: int, *name: str | int) -> int:
    """A 64-bit seed for the stream of this name."""
    text = "\x1f".join(f"{type(part).__name__}:{part}" for part in (seed, *name))
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


def stream(seed: int, *name: str | int) -> random.Random:
    """A generator of Python's own kind."""
    return random.Random(stream_seed(seed, *name))


def array_stream(seed: int, *name: str | int) -> np.random.Generator:
    """A generator of numpy's kind (Philox, itself counter-based)."""
    return np.random.Generator(np.random.Philox(stream_seed(seed, *name)))
