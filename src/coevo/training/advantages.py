"""Advantages: from the rewards of one group to the weight of each reply in the gradient.

Rewards come as one sequence per rollout, with one entry per turn (one, where episodes have one): `[[r] for r in rewards]`. A reward
that is None is masked: it has no advantage (None) and stands in no baseline. Only children of one parent are compared with each
other: where a group holds several parents (`parents`), each has baselines of its own, so that being dealt a good parent earns nothing.

A set of returns that are compared is *dead* when max - min is at most 1e-6 times the larger of 1 and its largest |return|. Dead sets
and sets of one have advantages of exactly 0. (A rounded standard deviation cannot tell: of eight rewards 0.2 it may be 1e-17.)
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from itertools import accumulate
from typing import Literal

from coevo.errors import UsageError
from coevo.training.settings import AdvantageConfig, AdvantageName

DEAD = 1e-6
"""Spread, relative to the larger of 1 and the largest magnitude, up to which values count as equal."""

Returns = list[list[float | None]]


def advantages(
    rewards: Sequence[Sequence[float | None]], config: AdvantageConfig, *, parents: Sequence[Hashable] | None = None
) -> Returns:
    """Advantages of one group, in the shape of `rewards`; None where a return is unknown. `parents` names each rollout's parent.

    raw: the return itself. group_mean: return - mean. group_zscore: (return - mean) / sample standard deviation. per_turn: return - mean of
    the returns at the same turn. best_of_k: see `best_of_k`, among the returns at the same turn. With `unit`, each set that is compared
    is divided by its largest magnitude. All times `scale`. Means are over all turns of
    the rollouts of one parent (group_mean, group_zscore); with `returns = "episode"` a rollout counts once, however many turns it had.
    """
    if parents is not None and len(parents) != len(rewards):
        raise UsageError(f"{len(parents)} parents for {len(rewards)} rollouts; give one for each")
    compare = _METHODS[config.name]
    by_turn = config.name in ("per_turn", "best_of_k")
    returns = [_returns(row, config.returns, config.discount) for row in rewards]
    cells: dict[Hashable, list[tuple[int, int]]] = {}
    for i, row in enumerate(returns):
        once = row[:1] if config.returns == "episode" else row
        for t, value in enumerate(once):
            if value is not None:
                cells.setdefault((parents[i] if parents is not None else None, t if by_turn else 0), []).append((i, t))
    found: Returns = [[None] * len(row) for row in returns]
    for places in cells.values():
        values = [value for i, t in places if (value := returns[i][t]) is not None]
        compared = compare(values, config)
        largest = max(map(abs, compared)) if config.unit else 1.0
        for (i, t), advantage in zip(places, compared, strict=True):
            found[i][t] = config.scale * (advantage / largest if largest else 0.0)
    if config.returns == "episode":
        return [row[:1] * len(row) for row in found]
    return found


def is_dead(values: Sequence[float], spread: float = DEAD) -> bool:
    """Whether max - min is at most `spread` times the larger of 1 and the largest magnitude; so for fewer than two values."""
    if len(values) < 2:
        return True
    return max(values) - min(values) <= spread * max(1.0, max(map(abs, values)))


def best_of_k(values: Sequence[float], k: int) -> list[float]:
    """E[max of a random k-subset that contains i] - E[max of a random k-subset that does not], for each i; exact.

    The gradient of what k samples are worth together: a reply is credited with what it adds to the best of k, so that a rare success among
    failures counts fully and the second of two equal successes hardly. k = 1 is the value less the mean of the others (leave-one-out);
    for k = n, where no subset leaves i out, it is max - max of the others. For k < n the advantages add up to 0.

    After sorting, the j-th smallest of m values is the largest of C(j - 1, k - 1) of the C(m, k) subsets (Chen et al. 2021, arXiv
    2107.03374, for 0/1 rewards; Walder and Karkhanis 2025, arXiv 2505.15201, for any, with leave-one-out baselines). O(n log n).
    """
    n = len(values)
    if not 1 <= k <= max(n, 1):
        raise UsageError(f"best of {k} among {n} values; k must lie in 1 to {n}")
    if n < 2:
        return [0.0] * n
    order = sorted(range(n), key=values.__getitem__)
    low = values[order[0]]
    ranked = [values[i] - low for i in order]  # Differences, so that equal values give exactly 0.
    without = min(k, n - 1)
    # Above i: the j-th smallest (from 0) is the largest of C(j - 1, k - 2) subsets with i, and of C(j - 1, without - 1) of the others.
    above_with = _suffix([x * _share(j - 1, k - 2, n - 1, k - 1) for j, x in enumerate(ranked)])
    above_without = _suffix([x * _share(j - 1, without - 1, n - 1, without) for j, x in enumerate(ranked)])
    below_without = [0.0, *accumulate(x * _share(j, without - 1, n - 1, without) for j, x in enumerate(ranked))]
    found = [0.0] * n
    for rank, i in enumerate(order):
        if rank and ranked[rank] == ranked[rank - 1]:
            found[i] = found[order[rank - 1]]  # Equal on paper, so exactly equal.
            continue
        contains = ranked[rank] * _share(rank, k - 1, n - 1, k - 1) + above_with[rank + 1]
        found[i] = contains - (below_without[rank] + above_without[rank + 1])
    return found


def _share(a: int, b: int, m: int, k: int) -> float:
    """C(a, b) / C(m, k), correctly rounded; 0 for an impossible choice."""
    return math.comb(a, b) / math.comb(m, k) if a >= 0 and b >= 0 else 0.0


def _suffix(terms: Sequence[float]) -> list[float]:
    """Sums of `terms[i:]`, for i from 0 to their number."""
    return [*accumulate(reversed(terms), initial=0.0)][::-1]


def _returns(row: Sequence[float | None], how: Literal["step", "episode"], discount: float) -> list[float | None]:
    """step: r_t + discount * r_(t+1) + ...; episode: the sum of all, for every turn. None where a reward in it is unknown."""
    if how == "episode":
        known = [r for r in row if r is not None]
        return [math.fsum(known) if len(known) == len(row) else None] * len(row)
    found: list[float | None] = []
    later: float | None = 0.0
    for reward in reversed(row):
        rest = 0.0 if discount == 0 else later
        later = None if reward is None or rest is None else reward + discount * rest
        found.append(later)
    return found[::-1]


def _raw(values: Sequence[float], config: AdvantageConfig) -> list[float]:
    return list(values)


def _centred(values: Sequence[float], config: AdvantageConfig) -> list[float]:
    if is_dead(values):
        return [0.0] * len(values)
    mean = math.fsum(values) / len(values)
    return [value - mean for value in values]


def _zscore(values: Sequence[float], config: AdvantageConfig) -> list[float]:
    centred = _centred(values, config)
    variance = math.fsum(c * c for c in centred) / max(len(centred) - 1, 1)
    return [c / math.sqrt(variance) for c in centred] if variance > 0 else centred


def _best_of_k(values: Sequence[float], config: AdvantageConfig) -> list[float]:
    return [0.0] * len(values) if is_dead(values) else best_of_k(values, min(config.k, len(values)))


_METHODS: dict[AdvantageName, Callable[[Sequence[float], AdvantageConfig], list[float]]] = {
    "raw": _raw,
    "group_mean": _centred,
    "group_zscore": _zscore,
    "per_turn": _centred,
    "best_of_k": _best_of_k,
}
