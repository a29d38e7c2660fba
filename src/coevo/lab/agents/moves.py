"""The moves of the playbook: one small change of one recipe setting each, with the diagnostics it answers.

A move is a function of the resolved recipe; it gives None where it changes nothing. Everything that is tried is a move, a skill's patch, or
an agent's own idea: none of them is believed before the gate has spoken.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from coevo.lab.types import Family

Recipe = Mapping[str, Any]
Sets = Mapping[str, Any]


class Move(NamedTuple):
    """A change that has a reason."""

    name: str
    family: Family
    sets: Callable[[Recipe], Sets | None]
    """Of the resolved recipe: dotted names to new values, or None where the move does not apply."""
    answers: tuple[str, ...]
    """Diagnostics (ids) that speak for it. `learning` comes in two: "learning:flat", nothing moves, and "learning:worse", it moves down."""
    why: str
    toy: bool = False
    """Of trainer `toy` only."""


def value(recipe: Recipe, name: str) -> Any:
    """A setting by dotted name; None where there is none."""
    found: Any = recipe
    for part in name.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def scaled(name: str, factor: float, *, low: float, high: float) -> Callable[[Recipe], Sets | None]:
    """A number times `factor`, kept within bounds; whole numbers stay whole."""

    def sets(recipe: Recipe) -> Sets | None:
        old = value(recipe, name)
        if not isinstance(old, int | float) or isinstance(old, bool):
            return None
        new = min(high, max(low, old * factor))
        new = round(new) if isinstance(old, int) else float(f"{new:.6g}")
        return {name: new} if new != old else None

    return sets


def switched(
    name: str, new: Any, *, when: Callable[[Recipe], bool] = lambda recipe: True
) -> Callable[[Recipe], Sets | None]:
    """A setting to one value, unless it has it."""
    return lambda recipe: {name: new} if value(recipe, name) != new and when(recipe) else None


def raised(name: str, least: float) -> Callable[[Recipe], Sets | None]:
    """A number, or nothing, to at least `least`."""

    def sets(recipe: Recipe) -> Sets | None:
        old = value(recipe, name)
        return {name: least} if old is None or old < least else None

    return sets


def _instead(old: str, new: str) -> Callable[[Recipe], Sets | None]:
    """One part of the reward in another's place, with its weight."""

    def sets(recipe: Recipe) -> Sets | None:
        parts = value(recipe, "reward.parts") or {}
        if old not in parts or new in parts:
            return None
        return {"reward.parts": {new if name == old else name: weight for name, weight in parts.items()}}

    return sets


def _plain(recipe: Recipe) -> Sets | None:
    """`search_gain` alone in the place of a reward that is composed, or of one's own making."""
    parts = value(recipe, "reward.parts") or {}
    composed = len(parts) > 1 or any(":" in name for name in parts)
    return {"reward.parts": {"search_gain": 1.0}} if composed else None


def _fits_best_of_k(recipe: Recipe) -> bool:
    return (value(recipe, "advantage.k") or 4) <= (value(recipe, "group_size") or 0)


_HYPER, _REWARD, _FILTER = Family.HYPERPARAMETER, Family.REWARD, Family.FILTER

MOVES: tuple[Move, ...] = (
    Move(
        "lower-rate",
        _HYPER,
        scaled("lr", 0.3, low=1e-9, high=1.0),
        (
            "learning-rate-too-high",
            "learning:worse",
            "entropy-collapse",
            "logprob-drift",
            "reward-collapse",
            "repetition",
        ),
        "steps are so large that the policy collapses before it has seen enough",
    ),
    Move(
        "much-lower-rate",
        _HYPER,
        scaled("lr", 0.1, low=1e-9, high=1.0),
        ("learning-rate-too-high", "learning:worse", "entropy-collapse", "logprob-drift", "reward-collapse"),
        "the rate is an order of magnitude too high",
    ),
    Move(
        "higher-rate",
        _HYPER,
        scaled("lr", 3.0, low=1e-9, high=1.0),
        ("learning:flat",),
        "steps are so small that nothing moves within the budget",
    ),
    Move(
        "larger-groups",
        _HYPER,
        scaled("group_size", 2.0, low=2, high=256),
        ("hopeless-groups", "group-size", "dead-groups", "reward-spread"),
        "successes are rare: larger groups hold one more often",
    ),
    Move(
        "kl-to-base",
        _HYPER,
        raised("loss.kl", 0.02),
        ("entropy-collapse", "logprob-drift", "repetition", "template-collapse"),
        "the policy leaves what it could do before; a KL term holds it",
    ),
    Move(
        "entropy-floor",
        _HYPER,
        raised("entropy.floor", 0.3),
        ("entropy-collapse", "solution-diversity", "template-collapse"),
        "exploration dies; a floor keeps it alive and costs nothing above it",
    ),
    Move(
        "best-of-k",
        _REWARD,
        switched("advantage.name", "best_of_k", when=_fits_best_of_k),
        ("solution-diversity", "template-collapse", "copies-of-parent"),
        "the policy will be used by a search that keeps the best of several: credit what raises the best",
    ),
    Move(
        "mean-advantage",
        _REWARD,
        switched("advantage.name", "group_mean"),
        ("advantage-degenerate",),
        "dividing by a group's deviation blows jitter up to a signal",
    ),
    Move(
        "search-gain-for-metaevolve",
        _REWARD,
        _instead("metaevolve", "search_gain"),
        ("copies-of-parent", "reward-truth-gap"),
        "a penalty for regressions makes handing the parent back the safest answer",
    ),
    Move(
        "search-gain-for-absolute",
        _REWARD,
        _instead("absolute", "search_gain"),
        ("reward-spread", "dead-groups"),
        "what a search earns is the gain over the parent, not fitness itself",
    ),
    Move(
        "absolute-for-search-gain",
        _REWARD,
        _instead("search_gain", "absolute"),
        ("reward-ties", "dead-groups"),
        "most gains are cut off at zero; fitness itself still tells better failures from worse ones",
    ),
    Move(
        "plain-reward",
        _REWARD,
        _plain,
        ("unfaithful-part", "reward-truth-gap", "saturated-part", "dead-groups", "reward-ties", "reward-spread"),
        "the composed reward pays for other things than being better: begin again from what a search earns",
    ),
    Move(
        "no-bonus",
        _REWARD,
        switched("toy.bonus", 0.0),
        ("unfaithful-part", "reward-truth-gap", "saturated-part", "format-meaning-gap"),
        "the shaped part pays for what is worth nothing",
        toy=True,
    ),
    Move(
        "finer-levels",
        _REWARD,
        switched("toy.levels", None),
        ("dead-groups", "reward-ties", "reward-spread"),
        "the reward tells so few levels apart that groups are ties",
        toy=True,
    ),
    Move(
        "sound-tests",
        Family.DATA,
        switched("toy.leak", 0.0),
        ("public-hidden-gap", "reward-truth-gap", "copies-of-tests"),
        "public tests can be hard-coded: draw others",
        toy=True,
    ),
    Move(
        "zero-spread-filter",
        _FILTER,
        switched("filter.name", "zero_spread"),
        ("dead-groups", "filter-illusion"),
        "dead groups dilute the step",
    ),
    Move(
        "no-filter",
        _FILTER,
        switched("filter.name", "none"),
        ("filter-illusion", "filter-keep"),
        "the filter drops what there is to learn",
    ),
    Move(
        "replace-dead-groups",
        _FILTER,
        raised("filter.replace", 3),
        ("dead-groups",),
        "dead groups waste the step's budget; draw others in their place",
    ),
    Move(
        "late-states",
        Family.DATA,
        scaled("states.early", 0.4, low=0.0, high=1.0),
        ("solved-groups", "learning:flat"),
        "early states are easy; a search spends its budget on late ones",
    ),
    Move(
        "early-states",
        Family.DATA,
        scaled("states.early", 1.6, low=0.0, high=1.0),
        ("hopeless-groups",),
        "late states are too hard for now: begin with earlier ones",
    ),
    Move(
        "deaf-to-noise",
        _REWARD,
        raised("reward.tolerance", 0.02),
        ("reward-noise",),
        "the reward pays for jitter of its own measurement",
    ),
    Move(
        "fresher-states",
        Family.DATA,
        scaled("states.refresh", 0.5, low=1, high=1000),
        ("stale-groups", "copies-of-parent", "learning:flat"),
        "the policy's own states are stale",
    ),
    Move(
        "longer-replies",
        Family.EPISODE,
        scaled("episode.max_tokens", 1.5, low=1, high=32_768),
        ("truncation",),
        "good replies are cut off",
    ),
    Move(
        "shorter-replies",
        Family.EPISODE,
        scaled("episode.max_tokens", 0.7, low=16, high=32_768),
        ("length-drift", "repetition"),
        "replies grow without becoming better; a limit makes length cost something",
    ),
    Move(
        "cooler",
        Family.EPISODE,
        scaled("episode.temperature", 0.8, low=0.3, high=2.0),
        ("format-meaning-gap",),
        "samples are too random to be well-formed",
    ),
    Move(
        "warmer",
        Family.EPISODE,
        scaled("episode.temperature", 1.2, low=0.3, high=2.0),
        ("solution-diversity", "dead-groups", "template-collapse"),
        "a group's replies are too much alike to compare",
    ),
)


def moves_for(recipe: Recipe) -> Iterator[tuple[Move, Sets]]:
    """Every move that changes something in this recipe, in a fixed order: the table's, then one for each part of a composed reward."""
    toy = value(recipe, "trainer") == "toy"
    for move in MOVES:
        if (not move.toy or toy) and (sets := move.sets(recipe)):
            yield move, sets
    parts = value(recipe, "reward.parts") or {}
    if len(parts) > 1:
        for name in sorted(parts):
            rest = {other: weight for other, weight in parts.items() if other != name}
            yield (
                Move(
                    f"without-{name.rpartition(':')[2]}",
                    _REWARD,
                    lambda recipe, rest=rest: {"reward.parts": rest},
                    ("reward-truth-gap", "unfaithful-part", "saturated-part", "format-meaning-gap", "reward-ties"),
                    f"the reward's part {name!r} pays for something else than ability",
                ),
                {"reward.parts": rest},
            )
