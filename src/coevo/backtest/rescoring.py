"""A reward, computed again on recorded rollouts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from coevo.backtest.samples import Rebuilt, lacks, rebuild, texts
from coevo.errors import UsageError
from coevo.evidence.types import Frame
from coevo.training.own import is_own
from coevo.training.rewards import Reward, reward_of
from coevo.training.settings import AdvantageConfig, FilterConfig, Recipe, RewardConfig

EXACT = 1e-9


@dataclass(frozen=True)
class Trained:
    """What rollouts were recorded under, as far as it is known."""

    reward: RewardConfig | None = None
    advantage: AdvantageConfig | None = None
    filter: FilterConfig | None = None
    max_tokens: int | None = None
    """Of one reply."""

    @classmethod
    def of(cls, recipe: Recipe) -> Trained:
        return cls(recipe.reward, recipe.advantage, recipe.filter, recipe.episode.max_tokens)


UNTOLD = Trained()


@dataclass(frozen=True)
class Rescored:
    """Rewards by row, and what could not be computed."""

    rewards: np.ndarray
    """float64 of (rows,); NaN where there is none."""
    reasons: Mapping[str, int]
    """Why measured rollouts have none -> how many."""
    reused: tuple[str, ...]
    """Parts whose recorded values were taken over, since they cannot be computed again."""
    rebuilt: Rebuilt


def rescore(frame: Frame, reward: RewardConfig, trained: Trained = UNTOLD) -> Rescored:
    """The reward of every measured rollout, by the code that training uses. Rollouts are scored with those of their group.

    A part that cannot be recomputed is taken from the record where the run had it, with its weight changed; the settings it depends on
    must then be the same. Otherwise rollouts it matters for have no reward, with the reason. Raises `ConfigError` for a function of the
    user's own that cannot be loaded.
    """
    rebuilt = rebuild(frame, max_tokens=trained.max_tokens)
    measured = rebuilt.measured
    reasons = np.full(frame.rows, "", dtype=object)
    total = np.zeros(frame.rows)
    reused, computed = [], {}
    for name, weight in reward.parts.items():
        why = lacks(name, reward, rebuilt)
        old = _recorded(frame, name, reward, trained)
        if old is not None and (why[measured] != "").all() and measured.any():
            total += weight * old
            reasons[np.isnan(old) & (reasons == "")] = f"{name}: not recorded"
            reused.append(name)
            continue
        computed[name] = weight
        lacking = (why != "") & (reasons == "")
        reasons[lacking] = why[lacking]
    wanted = measured & (reasons == "")
    if computed:
        with reward_of(reward.model_copy(update={"parts": computed})) as made:
            values, faults = _scored(rebuilt, made, wanted)
        total += values
        reasons[faults != ""] = faults[faults != ""]
    found = np.where(measured & (reasons == ""), total, np.nan)
    counts = Counter(str(reason) for reason in reasons[measured] if reason)
    return Rescored(found, dict(counts.most_common()), tuple(reused), rebuilt)


def agreement(frame: Frame, trained: Trained) -> float | None:
    """Share of recorded rewards that the recorded recipe's reward gives again, to 1e-9: how far this frame's backtests can be believed.

    None where the recipe is not known or nothing could be recomputed.
    """
    if trained.reward is None:
        return None
    again = rescore(frame, trained.reward, trained).rewards
    both = np.isfinite(again) & frame.measured
    if not both.any():
        return None
    return float((np.abs(again - frame.numbers("reward"))[both] <= EXACT).mean())


def _recorded(frame: Frame, name: str, reward: RewardConfig, trained: Trained) -> np.ndarray | None:
    """A part's recorded values at weight 1; None where they are not there, or were computed under other settings."""
    old = trained.reward
    if old is None or name not in old.parts or not frame.has(f"parts.{name}"):
        return None
    settings = {"parts", "timeout_s"}
    if reward.model_dump(exclude=settings) != old.model_dump(exclude=settings):
        return None
    return frame.numbers(f"parts.{name}") / old.parts[name]


def _scored(rebuilt: Rebuilt, made: Reward, wanted: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Values, and why there is none, by row."""
    frame = rebuilt.frame
    values, faults = np.zeros(frame.rows), np.full(frame.rows, "", dtype=object)
    rows = np.flatnonzero(wanted)
    if not len(rows):
        return values, faults
    said: Mapping[int, str] = {}
    if any(is_own(name) for name in made.config.parts):
        try:
            said = texts(frame, rows)
        except UsageError as e:
            faults[rows] = f"own functions are given the text: {e}"
            return values, faults
    labels = frame.groups[rows]
    order = np.argsort(labels, kind="stable")
    for group in np.split(rows[order], np.flatnonzero(np.diff(labels[order])) + 1):
        samples = [rebuilt.sample(int(row), said.get(int(row), "")) for row in group]
        for row, scored in zip(group, made(samples), strict=True):
            if scored.reward is None:
                faults[row] = f"the reward gives none: {scored.reason}"
            else:
                values[row] = scored.reward
    return values, faults
