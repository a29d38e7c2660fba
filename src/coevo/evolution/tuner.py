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
from typing import Any, NamedTuple

import numpy as np

from coevo.streams import stream_seed

MAX_CONSTANTS = 512
"""Programs with more are not tuned."""

FULL_MATRIX = 64
"""Up to here the full covariance matrix is learnt."""

MAX_OPTIMISERS = 128
"""Kept at once; the one not told for longest goes first."""

PATIENCE = 12
"""Generations without a better program after which an optimiser starts anew, from whatever is tuned next."""

FIRST_STEPS = (0.03, 0.1, 0.3, 1.0)
"""Step sizes of the first generation, each candidate's own: some problems need polish, some need a leap. The distribution
starts with that of the best one."""

FEW, FEW_SHARE = 2, 0.5
"""Of a first generation, this share of candidates moves so many constants only."""

OLDEST = 1
"""Results asked this many generations ago still count. Older ones lie far outside the distribution as it is now, and would
throw its step size off (Hansen 2011, "Injecting external solutions into CMA-ES")."""

_WORST = 1e300

Key = tuple[int, str]


class Asked(NamedTuple):
    """What a step is to try, and by whom it was asked: everything that `tell` needs back."""

    founder: str
    generation: int
    offsets: tuple[float, ...]


class _Optimiser:
    """The distribution is built when the first generation is full: most skeletons never get that far."""

    def __init__(self, founder: str, size: int) -> None:
        self.founder, self.size = founder, size
        self.population = 4 + int(3 * math.log(size))
        self.generation = 0
        self.cma: Any = None
        self.told: list[tuple[np.ndarray, float]] = []
        self.best = math.inf
        self.stale = 0

    def ask(self, seed: int) -> tuple[float, ...]:
        if self.cma is None:
            drawn = self._first(np.random.Generator(np.random.Philox(seed)))
        else:
            self.cma.reseed_rng(seed % 2**32)
            drawn = self.cma.ask()
        return tuple(float(f"{x:.8g}") for x in drawn)

    def _first(self, rng: np.random.Generator) -> np.ndarray:
        drawn = rng.choice(FIRST_STEPS) * rng.standard_normal(self.size)
        if self.size > FEW and rng.random() < FEW_SHARE:
            drawn[rng.permutation(self.size)[FEW:]] = 0.0
        return drawn

    def tell(self, asked: Asked, loss: float) -> bool:
        """Take one result; False when this optimiser is done."""
        if asked.generation < self.generation - OLDEST:
            return True
        self.told.append((np.array(asked.offsets), loss))
        if len(self.told) < self.population:
            return True
        at, leader = min(self.told, key=lambda pair: pair[1])
        self.stale = 0 if leader < self.best else self.stale + 1
        done = False
        if self.cma is None:
            self.cma = self._build(at if leader < _WORST else np.zeros(self.size))
        else:
            with np.errstate(all="ignore"):  # A distribution that diverges is caught by `should_stop`.
                self.cma.tell(self.told)
                done = self.stale >= PATIENCE or self.cma.should_stop()
        self.best = min(self.best, leader)
        self.told = []
        self.generation += 1
        return not done

    def _build(self, at: np.ndarray) -> Any:
        """The distribution around the best of the first generation, as wide as half its distance from the founder."""
        from cmaes import CMA, SepCMA

        kind = CMA if self.size <= FULL_MATRIX else SepCMA
        moved = at[at != 0.0]
        step = 0.5 * float(np.sqrt(np.mean(moved**2))) if moved.size else 0.0
        step = min(max(step, FIRST_STEPS[0]), FIRST_STEPS[-1])
        return kind(mean=at, sigma=step, seed=0, population_size=self.population)


class Tuner:
    """All optimisers of a search."""

    def __init__(self, seed: int) -> None:
        self._seed = seed
        self._optimisers: OrderedDict[Key, _Optimiser] = OrderedDict()

    def ask(self, key: Key, parent: str, size: int, step: int) -> Asked:
        """What to try next with `key`'s optimiser; one that does not exist yet has `parent` for its founder."""
        found = self._optimisers.get(key)
        if found is None or found.size != size:
            found = _Optimiser(parent, size)
        return Asked(found.founder, found.generation, found.ask(stream_seed(self._seed, "tune", step)))

    def focus(self, island: int) -> tuple[str, int] | None:
        """Skeleton and number of constants of the island's most successful optimiser that has filled a generation.

        An optimiser needs a generation of some 4 + 3 ln n steps to learn anything; spread over every program that selection
        happens to draw, none would.
        """
        running = [(o.best, key[1], o.size) for key, o in self._optimisers.items() if key[0] == island and o.cma]
        return min(running)[1:] if running else None

    def tell(self, key: Key, asked: Asked, fitness: float | None) -> None:
        """Result of one committed step; None for a program that failed or was never made.

        A step that was asked of another founder's optimiser (decided before this one existed) says nothing here.
        """
        found = self._optimisers.get(key)
        if found is None:
            found = self._optimisers[key] = _Optimiser(asked.founder, len(asked.offsets))
        if found.founder != asked.founder or found.size != len(asked.offsets):
            return
        self._optimisers.move_to_end(key)
        if not found.tell(asked, _WORST if fitness is None else -fitness):
            del self._optimisers[key]
        elif len(self._optimisers) > MAX_OPTIMISERS:
            self._optimisers.popitem(last=False)
