"""Differences between arms: paired by task and seed, with intervals; and beforehand, what difference could be found at all.

Unit of a claim. A study's arms see the same tasks, the same search seeds and as many training seeds, so cell (seed, task) of one arm
pairs with that of another. A claim about a *recipe* has to hold for other training seeds and other tasks, so both are drawn anew:
the primary interval is the crossed bootstrap over seeds and tasks (`coevo.stats.crossed_bootstrap`). With three seeds it is
coarse and comes out some 20 % narrow in the part that seeds contribute; the difference of each seed is therefore shown beside it,
and so is the interval over tasks alone, which is a claim about these trained policies.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from coevo.bench.metrics import table_of
from coevo.bench.types import SearchRecord
from coevo.stats import Interval, crossed_bootstrap, crossed_weights, holm, minimum_detectable_effect, sign_flip_p
from coevo.streams import stream_seed


@dataclass(frozen=True)
class Difference:
    """Arm minus other, on one suite."""

    arm: str
    other: str
    suite: str
    primary: bool
    """Named before the study began."""
    tasks: int
    pairs: int
    """Cells measured in both arms, of tasks x seeds."""
    interval: Interval
    """Of the mean difference in verified fitness; over tasks and seeds, 95 %."""
    over_tasks: Interval
    """The same over tasks alone: about these policies, not about the recipe."""
    by_seed: tuple[float, ...]
    p: float
    p_tasks: float
    """Paired permutation test over tasks of the mean over seeds."""
    p_holm: float = math.nan
    """`p` adjusted for all comparisons of its family: the primary ones, or the others of its suite."""


@dataclass(frozen=True)
class Detectable:
    """What difference in verified fitness a suite of so many tasks can show, from the noise seen beforehand."""

    tasks: int
    seeds: int
    sd_one: float
    """Of the difference between two searches of one policy on one task that differ in their seed alone."""
    effect: float
    """Found with 80 % power at the 5 % level, two-sided, if noise were all: training seeds and what differs between tasks add to it."""
    pilot_tasks: int
    pilot_seeds: int


def compare(
    records: Sequence[SearchRecord],
    pairs: Iterable[tuple[str, str, bool]],
    *,
    suite: str,
    seed: int,
    resamples: int = 5000,
) -> list[Difference]:
    """Differences on one suite, Holm's correction not yet applied. `pairs` are (arm, other, primary); those without cells in common
    are left out."""
    here = [r for r in records if r.suite == suite]
    seeds = sorted({r.seed for r in here})
    tasks = sorted({r.task for r in here})
    found: list[Difference] = []
    for arm, other, primary in pairs:
        mine, theirs = (table_of([r for r in here if r.arm == name], seeds=seeds, tasks=tasks) for name in (arm, other))
        table = [[a - b for a, b in zip(x, y, strict=True)] for x, y in zip(mine, theirs, strict=True)]
        known = sum(not math.isnan(cell) for row in table for cell in row)
        if not known:
            continue
        draw = stream_seed(seed, "bootstrap", suite, arm, other) % 2**63
        interval, p = crossed_bootstrap(table, seed=draw, resamples=resamples)
        alone, _ = crossed_bootstrap(table, seed=draw, resamples=resamples, rows=False)
        over_seeds = [_mean(column) for column in zip(*table, strict=True)]
        measured = [value for value in over_seeds if not math.isnan(value)]
        found.append(
            Difference(
                arm,
                other,
                suite,
                primary,
                tasks=len(measured),
                pairs=known,
                interval=interval,
                over_tasks=alone,
                by_seed=tuple(_mean(row) for row in table),
                p=p,
                p_tasks=sign_flip_p(measured, seed=draw),
            )
        )
    return found


def corrected(differences: Sequence[Difference]) -> list[Difference]:
    """With Holm's correction: over all primary comparisons together, and over the others suite by suite."""
    families: dict[tuple[bool, str], list[int]] = {}
    for i, d in enumerate(differences):
        families.setdefault((d.primary, "" if d.primary else d.suite), []).append(i)
    adjusted: dict[int, float] = {}
    for members in families.values():
        adjusted |= dict(zip(members, holm([differences[i].p for i in members]), strict=True))
    return [Difference(**{**vars(d), "p_holm": adjusted[i]}) for i, d in enumerate(differences)]


def detectable(pilot: Sequence[SearchRecord], *, tasks: int, seeds: int) -> Detectable | None:
    """From searches of one policy on tasks that are not held out, each repeated with other seeds; None with fewer than two seeds
    or tasks.

    Within a task, two searches differ by noise of variance 2 s^2 (s^2 pooled over tasks). The mean over `seeds` of a paired
    difference has 1 / seeds of it, and so the standard deviation that `minimum_detectable_effect` takes.
    """
    cells: dict[str, list[float]] = {}
    for record in pilot:
        if record.hidden_best is not None:
            cells.setdefault(record.task, []).append(record.hidden_best)
    groups = [values for values in cells.values() if len(values) > 1]
    freedom = sum(len(values) - 1 for values in groups)
    if len(groups) < 2 or tasks < 1 or seeds < 1:
        return None
    squares = math.fsum((v - _mean(values)) ** 2 for values in groups for v in values)
    sd_one = math.sqrt(2 * squares / freedom)
    return Detectable(
        tasks=tasks,
        seeds=seeds,
        sd_one=sd_one,
        effect=minimum_detectable_effect(sd_one / math.sqrt(seeds), tasks),
        pilot_tasks=len(groups),
        pilot_seeds=max(len(values) for values in groups),
    )


@dataclass(frozen=True)
class Band:
    """A curve with an interval at each point: over tasks and seeds."""

    points: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]


def band(table: Mapping[tuple[int, str], Sequence[float]], *, seed: int, resamples: int = 1000) -> Band | None:
    """Mean over (seed, task) of equally long curves, with a 95 % crossed bootstrap band, point by point on the same resamples; None
    without any."""
    if not table:
        return None
    seeds, tasks = sorted({s for s, _ in table}), sorted({t for _, t in table})
    length = len(next(iter(table.values())))
    missing = [math.nan] * length
    cells = np.array(
        [[table.get((s, t), missing) for t in tasks] for s in seeds], dtype=float
    )  # (seeds, tasks, length)
    known = np.isfinite(cells[..., 0])
    filled = np.where(known[..., None], cells, 0.0)
    points = filled.sum(axis=(0, 1)) / known.sum()
    rows, columns = crossed_weights(known.shape, seed=seed, resamples=resamples)
    counts = ((rows @ known) * columns).sum(axis=1)
    sums = np.einsum("rs,stk,rt->rk", rows, filled, columns, optimize=True)
    means = sums[counts > 0] / counts[counts > 0, None]
    low, high = np.quantile(means, [0.025, 0.975], axis=0)
    return Band(tuple(points.tolist()), tuple(low.tolist()), tuple(high.tolist()))


def _mean(values: Iterable[float]) -> float:
    known = [value for value in values if not math.isnan(value)]
    return math.fsum(known) / len(known) if known else math.nan
