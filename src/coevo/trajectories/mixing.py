"""Which of all rows are written, and in which order: headroom buckets, the start mix, bounds, the curriculum.

Works on one number of each kind per row (numpy arrays), so that 100,000 rows cost a few megabytes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from coevo.errors import UsageError
from coevo.streams import array_stream
from coevo.trajectories.settings import MixConfig

Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Light:
    """What the choice looks at of all rows of one split; arrays of one length."""

    task: Numbers
    right: NDArray[np.bool_]
    """Whether the current program passes every test."""
    headroom: NDArray[np.float64]
    """NaN where no best fitness is known."""
    sampled: NDArray[np.bool_]
    """Rows made of samples; the others come from searches."""

    def __len__(self) -> int:
        return len(self.task)


@dataclass(frozen=True)
class Mixed:
    """Indices of the rows to write, in order, and how many each rule dropped."""

    rows: Numbers
    dropped: dict[str, int]


def start_mix(share: float, right: int, wrong: int, limit: int | None = None) -> tuple[int, int]:
    """The largest set (of at most `limit`) with `share` right ones: (right, wrong), with right = round(share * both), halves
    upwards."""

    def parts(total: int) -> tuple[int, int]:
        of_right = math.floor(share * total + 0.5)
        return of_right, total - of_right

    low, high = 0, right + wrong if limit is None else min(limit, right + wrong)
    while low < high:  # Both parts grow with the total, so the largest total that fits is found by halving.
        middle = (low + high + 1) // 2
        r, w = parts(middle)
        if r <= right and w <= wrong:
            low = middle
        else:
            high = middle - 1
    return parts(low)


def choose(config: MixConfig, light: Light, *, seed: int, split: str) -> Mixed:
    """The rows of a split to write. Rules in order: min_headroom, per_task, per_bucket, right (train only), rows; each
    keeps those that come first in a random order, which the seed and the split name. `rows` keeps the mix, and the proportion
    of samples and searches.

    Raises `UsageError` where no row at all has the mix that is asked for.
    """
    dropped: dict[str, int] = {}
    alive = array_stream(seed, "mix", split).permutation(len(light)).astype(np.int64)

    def keep(name: str, mask: NDArray[np.bool_]) -> None:
        nonlocal alive
        if lost := int((~mask).sum()):
            dropped[name] = lost
        alive = alive[mask]

    if config.min_headroom is not None:
        keep("headroom", ~(light.headroom[alive] < config.min_headroom))
    if config.per_task is not None:
        keep("per_task", _within(light.task[alive]) < config.per_task)
    if config.per_bucket is not None:
        keep("bucket", _within(_bucket(light.headroom[alive], config.buckets)) < config.per_bucket)
    share = config.right if split == "train" else None
    if share is not None:
        keep("mix", _mixed(share, light.right[alive], light.sampled[alive], None))
    if config.rows is not None and config.rows < len(alive):
        sampled = light.sampled[alive]
        of_samples = math.floor(config.rows * int(sampled.sum()) / len(alive) + 0.5)
        mask = _mixed(share, light.right[alive], sampled, of_samples)
        mask[~sampled] = np.arange(int((~sampled).sum())) < config.rows - of_samples
        keep("rows", mask)
    return Mixed(_ordered(config, light, alive), dropped)


def _within(groups: Numbers) -> Numbers:
    """For each element, how many of its group came before it."""
    order = np.argsort(groups, kind="stable")
    sorted_groups = groups[order]
    begins = np.flatnonzero(np.r_[True, sorted_groups[1:] != sorted_groups[:-1]]) if len(groups) else np.empty(0, int)
    lengths = np.diff(np.r_[begins, len(groups)])
    found = np.empty(len(groups), dtype=np.int64)
    found[order] = np.arange(len(groups)) - np.repeat(begins, lengths)
    return found


def _bucket(headroom: NDArray[np.float64], buckets: int) -> Numbers:
    """Rows without a known headroom have a bucket of their own."""
    index = np.floor(np.clip(np.nan_to_num(headroom), 0, 1) * buckets).astype(np.int64)
    return np.where(np.isnan(headroom), buckets, np.minimum(index, buckets - 1))


def _mixed(
    share: float | None, right: NDArray[np.bool_], sampled: NDArray[np.bool_], limit: int | None
) -> NDArray[np.bool_]:
    """Which rows the mix keeps: all that come from searches, and of those made of samples the first right and wrong ones."""
    of_right, of_wrong = int((right & sampled).sum()), int((~right & sampled).sum())
    if share is None:
        order = np.cumsum(sampled) - 1
        return ~sampled | (order < (of_right + of_wrong if limit is None else limit))
    want_right, want_wrong = start_mix(share, of_right, of_wrong, limit)
    if of_right + of_wrong and limit is None and not want_right + want_wrong:
        kind = "wrong" if of_right else "right"
        raise UsageError(
            f"mix.right = {share:g} cannot be had: of {of_right + of_wrong} current programs none is {kind}. "
            "Keep all with --set mix.right=null, or get other answers (more samples, another model)"
        )
    before = _within(np.where(sampled, right.astype(np.int64), 2))
    return ~sampled | (before < np.where(right, want_right, want_wrong))


def _ordered(config: MixConfig, light: Light, alive: Numbers) -> Numbers:
    if config.order == "shuffled":
        return alive
    if config.order == "tasks":
        return np.sort(alive)
    headroom = np.nan_to_num(light.headroom[alive], nan=math.inf)
    if config.order == "hard_first":
        headroom = -np.nan_to_num(light.headroom[alive], nan=-math.inf)
    return alive[np.argsort(headroom, kind="stable")]
