"""Numeric constants moved by CMA-ES: one optimiser per island and skeleton (a program but for its constants).

The optimiser works on offsets in units of each constant's scale, around its founder: the first program it was asked to
tune. State is a fold of committed steps in step order: `ask` changes nothing and draws from the step's own seed, so
that any number of steps may be in flight; `tell` fills a generation and updates the distribution when it is full.

CMA-ES: Hansen, "The CMA Evolution Strategy: A Tutorial" (2016), as implemented by the package `cmaes`; above
`FULL_MATRIX` constants its separable form (Ros and Hansen 2008), whose cost is linear in their number.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from typing import Any

import numpy as np

from coevo.streams import stream, stream_seed

MAX_CONSTANTS = 512
"""Programs with more are not tuned."""

FULL_MATRIX = 64
"""Up to here the full covariance matrix is learnt."""

MAX_OPTIMISERS = 32
"""Kept at once; the one not told for longest goes first."""

PATIENCE = 12
"""Generations without a better program after which an optimiser starts anew, from whatever is tuned next."""

FIRST_STEPS = (0.3, 0.1, 0.03, 1.0)
"""Initial step sizes; a founder draws one. Some problems need polish, some need a leap."""

_WORST = 1e300

Key = tuple[int, str]


class _Optimiser:
    def __init__(self, founder: str, size: int, seed: int) -> None:
        from cmaes import CMA, SepCMA

        self.founder = founder
        self.size = size
        step = stream(seed, "tune-step", founder).choice(FIRST_STEPS)
        kind = CMA if size <= FULL_MATRIX else SepCMA
        self.cma: Any = kind(mean=np.zeros(size), sigma=step, seed=0)
        self.told: list[tuple[np.ndarray, float]] = []
        self.best = math.inf
        self.stale = 0

    def ask(self, seed: int) -> tuple[float, ...]:
        self.cma.reseed_rng(seed)
        return tuple(float(f"{x:.8g}") for x in self.cma.ask())

    def tell(self, offsets: tuple[float, ...], loss: float) -> bool:
        """Take one result; False when this optimiser is done."""
        self.told.append((np.array(offsets), loss))
        if len(self.told) < self.cma.population_size:
            return True
        leader = min(loss for _, loss in self.told)
        self.stale = 0 if leader < self.best else self.stale + 1
        self.best = min(self.best, leader)
        self.cma.tell(self.told)
        self.told = []
        return self.stale < PATIENCE and not self.cma.should_stop()


class Tuner:
    """All optimisers of a search."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._optimisers: OrderedDict[Key, _Optimiser] = OrderedDict()
        self._fresh: tuple[Key, _Optimiser] | None = None

    def ask(self, key: Key, parent: str, size: int, step: int) -> tuple[str, tuple[float, ...]]:
        """The founder of `key`'s optimiser (`parent` if there is none yet), and offsets for its `size` constants."""
        found = self._optimisers.get(key)
        if found is None or found.size != size:
            found = self._new(key, parent, size)
        return found.founder, found.ask(stream_seed(self._seed, "tune", step) % 2**32)

    def tell(self, key: Key, founder: str, offsets: tuple[float, ...], fitness: float | None) -> None:
        """Result of one committed step; None for a program that failed or was never made.

        A step that was asked of another founder's optimiser (decided before this one existed) says nothing here.
        """
        found = self._optimisers.get(key)
        if found is None:
            found = self._optimisers[key] = self._new(key, founder, len(offsets))
            self._fresh = None
        if found.founder != founder or found.size != len(offsets):
            return
        self._optimisers.move_to_end(key)
        if not found.tell(offsets, _WORST if fitness is None else -fitness):
            del self._optimisers[key]
        elif len(self._optimisers) > MAX_OPTIMISERS:
            self._optimisers.popitem(last=False)

    def _new(self, key: Key, founder: str, size: int) -> _Optimiser:
        """A fresh optimiser; the last one made is kept at hand, since several steps may ask before the first tells."""
        if self._fresh is None or self._fresh[0] != key or self._fresh[1].founder != founder:
            self._fresh = (key, _Optimiser(founder, size, self._seed))
        return self._fresh[1]
