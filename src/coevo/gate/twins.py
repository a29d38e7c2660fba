"""Twins: two arms with the distribution of one measured parent, and children with a planted gain.

Yes-or-no truth (all samples 0 or 1): each task's pass rate is drawn from its Beta posterior under a Beta prior that was fitted to all tasks
(method of moments for the beta-binomial). The prior matters: with 4 of 4 passed a task is likely but not surely always passed; a
flat prior would pull the U-shape of real pass rates into a hill and promise more noise than there is, and drawing from the samples
themselves would make every such task certain and promise less. Any other truth: samples are drawn from the task's own, with their
deviations from its mean stretched by sqrt(m / (m - 1)), the part of the variance that m samples lose to their mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

LEAST_PRIOR, MOST_PRIOR = 0.1, 1000.0
_HALVINGS = 40


@dataclass(frozen=True)
class Tasks:
    """What is known of a parent: samples of each task, yes-or-no or not."""

    samples: tuple[np.ndarray, ...]
    binary: bool
    prior: tuple[float, float]
    """Of the Beta distribution of pass rates; unused where truth is not yes-or-no."""

    @classmethod
    def of(cls, samples: Sequence[np.ndarray]) -> Tasks:
        binary = all(bool(np.isin(values, (0.0, 1.0)).all()) for values in samples)
        return cls(tuple(samples), binary, fitted_prior(samples) if binary else (1.0, 1.0))

    def within(self) -> float:
        """Mean over tasks of the variance of one sample: for yes-or-no truth E[p (1 - p)] under the posterior, else unbiased."""
        if self.binary:
            a, b = self._posteriors()
            n = a + b
            return float(np.mean(a * b / (n * (n + 1))))
        return float(np.mean([values.var(ddof=1) if len(values) > 1 else 0.0 for values in self.samples]))

    def _posteriors(self) -> tuple[np.ndarray, np.ndarray]:
        passed = np.array([values.sum() for values in self.samples])
        counts = np.array([len(values) for values in self.samples])
        return self.prior[0] + passed, self.prior[1] + counts - passed

    @cached_property
    def _stretched(self) -> tuple[np.ndarray, np.ndarray]:
        """What truth that is not yes-or-no is drawn from: (tasks, most samples), and how many of a task there are."""
        counts = np.array([len(values) for values in self.samples])
        urns = np.zeros((len(counts), counts.max()))
        for urn, values in zip(urns, self.samples, strict=True):
            stretch = np.sqrt(len(values) / (len(values) - 1)) if len(values) > 1 else 1.0
            centre = values.mean()
            urn[: len(values)] = centre + stretch * (values - centre)
        return urns, counts

    def looks(
        self, rng: np.random.Generator, *, tasks: int, looks: int, samples: int, gain: float = 0.0
    ) -> tuple[np.ndarray, np.ndarray]:
        """Fresh samples of a parent and a child whose mean truth is `gain` higher: two arrays of (tasks, looks, samples).

        So many tasks are drawn, with replacement if they are not as many as were measured. A gain moves the log-odds of all pass rates
        alike, since a task that is never or always passed can hardly move; truth that is not yes-or-no moves by `gain`.
        """
        known = len(self.samples)
        chosen = np.arange(known) if tasks == known else rng.integers(0, known, tasks)
        shape = (tasks, looks, samples)
        if self.binary:
            a, b = self._posteriors()
            rates = np.clip(rng.beta(a[chosen], b[chosen]), 1e-9, 1 - 1e-9)
            better = raised(rates, gain)
            return tuple((rng.random(shape) < p[:, None, None]).astype(float) for p in (rates, better))  # type: ignore[return-value]
        urns, counts = self._stretched
        which = rng.integers(0, counts[chosen, None, None, None], (tasks, 2, looks, samples))
        drawn = urns[chosen[:, None, None, None], which]
        return drawn[:, 0], drawn[:, 1] + gain


def fitted_prior(samples: Sequence[np.ndarray]) -> tuple[float, float]:
    """(a, b) of the Beta prior of pass rates, by moments: mean m, and the correlation r of two samples of one task, a + b = 1 / r - 1."""
    means = np.array([values.mean() for values in samples])
    counts = np.array([len(values) for values in samples], dtype=float)
    mean = float(np.clip(means.mean(), 0.01, 0.99))
    inverse = float(np.mean(1 / counts))
    spread = float(means.var(ddof=1)) if len(means) > 1 else 0.0
    most = mean * (1 - mean)
    r = (spread / most - inverse) / (1 - inverse) if inverse < 1 else 0.5
    total = float(np.clip(1 / r - 1 if r > 0 else MOST_PRIOR, LEAST_PRIOR, MOST_PRIOR))
    return mean * total, (1 - mean) * total


def raised(rates: np.ndarray, gain: float) -> np.ndarray:
    """Pass rates whose mean is `gain` higher (as far as it can be), by one shift of all log-odds."""
    if gain == 0:
        return rates
    odds = np.log(rates / (1 - rates))
    goal = float(rates.mean()) + gain
    low, high = -40.0, 40.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if float(np.mean(1 / (1 + np.exp(-odds - middle)))) < goal else (low, middle)
    return 1 / (1 + np.exp(-odds - high))


def paths_of(parent: np.ndarray, child: np.ndarray) -> np.ndarray:
    """(tasks, looks): cumulated mean differences of two arrays of (tasks, looks, samples)."""
    looks, samples = parent.shape[1:]
    return (child - parent).sum(axis=2).cumsum(axis=1) / (samples * np.arange(1, looks + 1))
