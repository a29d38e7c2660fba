"""Group filters: which groups of a step are trained on. A fold: what is kept depends on the groups before, through a small state.

    decision = decide(config, state, groups)      # rewards of each group; None for masked ones
    state = decision.state                        # plain data, part of a checkpoint

What is dropped is recorded (`kept = false`) with its reason; the caller may sample groups anew in its place, and asks again with those.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import NormalDist
from typing import Any

from coevo.training.advantages import is_dead
from coevo.training.settings import FilterConfig, FilterName

WARM_UP = 20
"""ema_threshold: least number of rounds before it drops a group that has any spread."""


@dataclass(frozen=True)
class FilterState:
    """What a filter remembers: of `ema_threshold`, the running moments of live groups' reward deviations."""

    rounds: int = 0
    mean: float = 0.0
    variance: float = 0.0

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, row: Mapping[str, Any]) -> FilterState:
        return cls(int(row["rounds"]), float(row["mean"]), float(row["variance"]))


@dataclass(frozen=True)
class Decision:
    """For each group whether it is trained on and, if not, why; and what the filter remembers from now on."""

    kept: tuple[bool, ...]
    reasons: tuple[str, ...]
    """Empty for kept groups."""
    state: FilterState


def replaceable(config: FilterConfig, rewards: Sequence[float | None]) -> bool:
    """Whether a dropped group was dropped for its own sake, so that another may take its place; filters that keep a share of the groups
    drop the others by design."""
    return is_dead([value for value in rewards if value is not None], config.spread) or config.name == "ema_threshold"


def decide(config: FilterConfig, state: FilterState, groups: Sequence[Sequence[float | None]]) -> Decision:
    """Judge one round of groups by their rewards (with several turns: the episodes' returns). `groups` may be empty.

    `none` keeps all. Every other filter drops dead groups, whose max - min is at most `spread` times the larger of 1 and the largest
    |reward|, and groups with fewer than two measured rewards; then by its own rule among the *live* rest.
    """
    rule = _RULES[config.name]
    if config.name == "none":
        return Decision((True,) * len(groups), ("",) * len(groups), state)
    known = [[reward for reward in group if reward is not None] for group in groups]
    reasons = [_dead(values, config.spread) for values in known]
    live = [i for i, reason in enumerate(reasons) if not reason]
    dropped, state = rule(config, state, [known[i] for i in live])
    for i, reason in zip(live, dropped, strict=True):
        reasons[i] = reason
    return Decision(tuple(not reason for reason in reasons), tuple(reasons), state)


def deviation(values: Sequence[float]) -> float:
    """Sample standard deviation; 0 for fewer than two values."""
    if len(values) < 2:
        return 0.0
    mean = math.fsum(values) / len(values)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1))


def separation(values: Sequence[float]) -> float:
    """How far two clusters of rewards stand apart: the largest share of the variance that lies between the parts of a two-way split, in
    [0, 1] (Otsu 1979). Signal to noise is s / (1 - s): 1 for rewards of two levels, about 0.64 for many normal ones, which have no clusters.
    """
    ordered = sorted(values)
    n, total = len(ordered), math.fsum(ordered)
    mean = total / n
    spread = math.fsum((value - mean) ** 2 for value in ordered)
    if spread <= 0:
        return 0.0
    best = below = 0.0
    for size in range(1, n):
        below += ordered[size - 1]
        best = max(best, size * (n - size) / n * (below / size - (total - below) / (n - size)) ** 2)
    return min(1.0, best / spread)


def _dead(values: Sequence[float], spread: float) -> str:
    if len(values) < 2:
        return "fewer than two measured rewards"
    return "no spread" if is_dead(values, spread) else ""


def _keep_all(
    config: FilterConfig, state: FilterState, groups: Sequence[Sequence[float]]
) -> tuple[list[str], FilterState]:
    return [""] * len(groups), state


def _ema_threshold(
    config: FilterConfig, state: FilterState, groups: Sequence[Sequence[float]]
) -> tuple[list[str], FilterState]:
    """EvoTrainer's (arXiv 2606.03108): drop groups whose deviation is under mean - z * std of an exponential memory of deviations.

    z is the normal quantile of `keep` (1.28 for 0.9). At least `floor` of the live groups, those of the largest deviation, stay. A round is
    judged by the memory of those before it; the first max(20, 1 / decay) rounds only fill it. Dead groups are not in the memory.
    """
    spreads = [deviation(group) for group in groups]
    reasons = [""] * len(groups)
    if state.rounds >= max(WARM_UP, 1 / config.decay) and config.keep < 1:
        threshold = state.mean - NormalDist().inv_cdf(config.keep) * math.sqrt(state.variance)
        safe = set(_largest(spreads, math.ceil(config.floor * len(groups))))
        reasons = [
            f"deviation {spread:.4g} under the threshold {threshold:.4g}"
            if spread < threshold and i not in safe
            else ""
            for i, spread in enumerate(spreads)
        ]
    return reasons, _remember(state, spreads, config.decay)


def _remember(state: FilterState, spreads: Sequence[float], decay: float) -> FilterState:
    """Moments of a mixture: weight `decay` for this round's deviations, the rest for those before (all of it for the first)."""
    if not spreads:
        return state
    weight = decay if state.rounds else 1.0
    mean = math.fsum(spreads) / len(spreads)
    variance = math.fsum((spread - mean) ** 2 for spread in spreads) / len(spreads)
    shift = mean - state.mean
    mixed = (1 - weight) * state.variance + weight * variance + weight * (1 - weight) * shift**2
    return FilterState(state.rounds + 1, state.mean + weight * shift, mixed)


def _top_uncertain(
    config: FilterConfig, state: FilterState, groups: Sequence[Sequence[float]]
) -> tuple[list[str], FilterState]:
    """StarPO-S (RAGEN, arXiv 2504.20073): keep the `share` of the live groups with the largest reward deviation."""
    return _top(config, [(deviation(group),) for group in groups], "deviation"), state


def _snr(config: FilterConfig, state: FilterState, groups: Sequence[Sequence[float]]) -> tuple[list[str], FilterState]:
    """Keep the `share` of the live groups with the highest signal to noise (`separation`; the larger deviation among equals)."""
    return _top(config, [(separation(group), deviation(group)) for group in groups], "signal to noise"), state


def _top(config: FilterConfig, keys: Sequence[tuple[float, ...]], what: str) -> list[str]:
    kept = set(_largest(keys, math.ceil(config.share * len(keys))))
    return ["" if i in kept else f"{what} is not among the top {config.share:g}" for i in range(len(keys))]


def _largest(keys: Sequence[Any], count: int) -> list[int]:
    """Indices of the `count` largest; the first among equals."""
    return sorted(range(len(keys)), key=lambda i: keys[i], reverse=True)[:count]


_RULES: dict[
    FilterName,
    Callable[[FilterConfig, FilterState, Sequence[Sequence[float]]], tuple[list[str], FilterState]],
] = {
    "none": _keep_all,
    "zero_spread": _keep_all,
    "ema_threshold": _ema_threshold,
    "snr": _snr,
    "top_uncertain": _top_uncertain,
}
