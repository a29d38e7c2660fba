"""Does a run learn? First steps against last steps, beside the noise of a step."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, variance
from typing import Any

from coevo.training.history import score_of

_ENDS = 10
"""Steps compared at either end, at most."""
_FEW = 3
"""Fewer at either end tell no noise."""


def verdict(rows: Iterable[Mapping[str, Any]], evaluations: Sequence[Mapping[str, Any]] = ()) -> str:
    """One line about a run's curve (`coevo.training.history.curve`): whether the reward moved by more than two standard errors
    between the first and the last steps, whether the truth on hidden tests moved with it, and what became of the fitness on the
    evaluation's tasks (`evaluations`, in order; only those that measured all tasks are compared)."""
    said = _of_training(list(rows))
    scores = [score for row in evaluations if (score := score_of(row)) is not None]
    if len(scores) < 2:
        return said
    went = "rises" if scores[-1] > scores[0] else "falls" if scores[-1] < scores[0] else "stays"
    return f"{said}; on the evaluation's tasks fitness {went}, {scores[0]:.4g} -> {scores[-1]:.4g}"


def _of_training(rows: list[Mapping[str, Any]]) -> str:
    reward, truth = _moved(rows, "reward_mean"), _moved(rows, "truth")
    if reward is None:
        return f"too few steps to tell; {2 * _FEW} or more show a direction"
    change, noise = reward
    if abs(change) <= noise:
        return f"no change of the reward ({change:+.3g}) beyond its noise (+-{noise:.2g}): train longer, or raise lr"
    if change < 0:
        return f"the reward falls ({change:+.3g}, noise +-{noise:.2g}): lower lr"
    if truth is None:
        return f"the reward rises ({change:+.3g}, noise +-{noise:.2g})"
    if truth[0] > truth[1]:
        return f"the reward rises ({change:+.3g}, noise +-{noise:.2g}), and the truth with it ({truth[0]:+.3g})"
    return (
        f"the reward rises ({change:+.3g}, noise +-{noise:.2g}), the truth on hidden tests does not ({truth[0]:+.3g}, noise "
        f"+-{truth[1]:.2g}): read some rollouts, and run `coevo reward audit`"
    )


def _moved(rows: list[Mapping[str, Any]], name: str) -> tuple[float, float] | None:
    """Mean of the last steps less that of the first, and two standard errors of it."""
    values = [float(row[name]) for row in rows if row.get(name) is not None]
    count = min(_ENDS, len(values) // 2)
    if count < _FEW:
        return None
    first, last = values[:count], values[-count:]
    return fmean(last) - fmean(first), 2 * ((variance(first) + variance(last)) / count) ** 0.5
