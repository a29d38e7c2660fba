"""From rollouts to rows: rewards, advantages, the filter, and what a step's figures are. Pure functions of what was sampled.

A rollout that could not be measured, and a turn whose reward is None (it raised, hung, was not a number), are masked: they stand in no
baseline and in no row, and are counted with their reason.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean

from coevo.engines.types import Row
from coevo.episodes.rows import rows_of
from coevo.episodes.samples import samples_of
from coevo.episodes.standing import truth_of
from coevo.episodes.types import EpisodeConfig, Rollout, Sample, StartState
from coevo.training.advantages import advantages, is_dead
from coevo.training.filters import Decision
from coevo.training.rewards import Reward, is_copy
from coevo.training.settings import Recipe
from coevo.training.types import Scored

RIGHT = 1 - 1e-9


@dataclass(frozen=True)
class Group:
    """The rollouts from one start state, scored. Per rollout, then per turn."""

    key: str
    state: StartState
    rollouts: tuple[Rollout, ...]
    samples: tuple[tuple[Sample | None, ...], ...]
    """None where a turn could not be measured."""
    scored: tuple[tuple[Scored | None, ...], ...]
    advantages: tuple[tuple[float | None, ...], ...]
    round: int = 0
    """0, or the round of replacement in which it was sampled."""
    kept: bool = True
    dropped: str = ""
    """Why the filter dropped it."""

    @property
    def returns(self) -> tuple[float | None, ...]:
        """Each rollout's reward: the sum over its turns; None where it is masked."""
        return tuple(_total(row) for row in self.scored)


@dataclass(frozen=True)
class Batch:
    """All that a step sampled."""

    step: int
    groups: tuple[Group, ...]
    filter: Mapping[str, object]
    """What the filter remembers afterwards."""
    skipped: str = ""
    """Why the step changes no weights."""
    timing: Mapping[str, float] = field(default_factory=dict)


def scored_group(key: str, rollouts: Sequence[Rollout], reward: Reward, recipe: Recipe, *, round: int = 0) -> Group:
    """Rewards and advantages of one group. Rewards see one turn of the group at a time, never what is masked."""
    samples = _samples(rollouts, recipe.episode)
    scored: list[list[Scored | None]] = [[None] * len(row) for row in samples]
    for turn in range(max(map(len, samples), default=0)):
        places, shown = [], []
        for i, row in enumerate(samples):
            if turn < len(row) and (sample := row[turn]) is not None:
                places.append(i)
                shown.append(sample)
        for i, one in zip(places, reward(shown), strict=True):
            scored[i][turn] = one
    rewards = [[one.reward if one is not None else None for one in row] for row in scored]
    found = advantages(rewards, recipe.advantage)
    state = rollouts[0].state
    return Group(key, state, tuple(rollouts), samples, tuple(map(tuple, scored)), tuple(map(tuple, found)), round)


def unscored_group(key: str, rollouts: Sequence[Rollout], episode: EpisodeConfig) -> Group:
    """Rollouts that are only looked at: no rewards, no advantages."""
    none = tuple((None,) * len(rollout.turns) for rollout in rollouts)
    return Group(key, rollouts[0].state, tuple(rollouts), _samples(rollouts, episode), none, none)


def _samples(rollouts: Sequence[Rollout], episode: EpisodeConfig) -> tuple[tuple[Sample | None, ...], ...]:
    """Per rollout and turn; None throughout for one that says nothing."""
    return tuple(
        (None,) * len(rollout.turns)
        if rollout.unmeasured
        else tuple(samples_of(rollout, max_tokens=episode.max_tokens))
        for rollout in rollouts
    )


def rows_at(group: Group) -> list[int]:
    """Which rollouts of the group have any advantage."""
    pairs = enumerate(zip(group.rollouts, group.advantages, strict=True))
    return [i for i, (rollout, found) in pairs if not rollout.unmeasured and any(v is not None for v in found)]


def rows_of_group(group: Group) -> list[Row]:
    """A row per rollout that has any advantage. Turns without one keep their place and are not trained."""
    rows = []
    for i in rows_at(group):
        rollout, found = group.rollouts[i], group.advantages[i]
        rows.append(
            Row(
                *rows_of(rollout, found),
                version=rollout.version,
                temperature=rollout.temperature,
                group=group.key,
            )
        )
    return rows


def filtered(groups: Sequence[Group], decision: Decision) -> list[Group]:
    """The groups with what the filter said of each."""
    pairs = zip(groups, decision.kept, decision.reasons, strict=True)
    return [replace(group, kept=kept, dropped=reason) for group, kept, reason in pairs]


def has_signal(rows: Sequence[Row]) -> bool:
    """Whether any trained token has an advantage other than 0."""
    return any(value and flag for row in rows for value, flag in zip(row.advantages, row.trained, strict=True))


def unmeasured_share(groups: Sequence[Group]) -> float:
    """Of all rollouts, those that say nothing."""
    flags = [bool(rollout.unmeasured) for group in groups for rollout in group.rollouts]
    return fmean(flags) if flags else 0.0


def reasons(groups: Sequence[Group]) -> dict[str, int]:
    """Why rollouts and rewards were masked, and groups dropped, with how many of each; the commonest first."""
    found: Counter[str] = Counter()
    for group in groups:
        if group.dropped:
            found[f"group: {_short(group.dropped)}"] += 1
        for rollout, row in zip(group.rollouts, group.scored, strict=True):
            if rollout.unmeasured:
                found[f"unmeasured: {_short(rollout.unmeasured)}"] += 1
            for one in row:
                if one is not None and one.reward is None:
                    found[f"reward: {_short(one.reason)}"] += 1
    return dict(found.most_common(_REASONS))


def figures(groups: Sequence[Group]) -> dict[str, float]:
    """A step's metrics by name (docs/training.md). Of all that was sampled, but `reward_mean_kept`; a figure of nothing is left out."""
    measured = [
        (rollout, [sample for sample in row if sample is not None])
        for group in groups
        for rollout, row in zip(group.rollouts, group.samples, strict=True)
        if row and not rollout.unmeasured
    ]
    lasts = [row[-1] for _, row in measured]
    returns = [value for group in groups for value in group.returns if value is not None]
    kept = [value for group in groups if group.kept for value in group.returns if value is not None]
    fitness = [fitness_after(row) for _, row in measured]
    gains = [after - row[0].parent_fitness for after, (_, row) in zip(fitness, measured, strict=True)]
    truths = [value for rollout, _ in measured if (value := truth_of(rollout)) is not None]
    turns = [turn for group in groups for rollout in group.rollouts for turn in rollout.turns]
    means: dict[str, Sequence[float]] = {
        "reward_mean": returns,
        "reward_mean_kept": kept,
        "fitness": fitness,
        "gain": gains,
        "improving": [value > 0 for value in gains],
        "truth": truths,
        "share_right": [is_right(row) for _, row in measured],
        "contract_ok": [sample.contract_ok or is_copy(sample) for _, row in measured for sample in row],
        "copy_rate": [is_copy(sample) for sample in lasts],
        "distinct_children": [_distinct(group) for group in groups],
        "dead_groups": [is_dead([v for v in group.returns if v is not None]) for group in groups],
        "kept_groups": [group.kept for group in groups],
        "unmeasured": [bool(rollout.unmeasured) for group in groups for rollout in group.rollouts],
        "masked": [one is not None and one.reward is None for group in groups for row in group.scored for one in row],
        "length": [len(turn.token_ids) for turn in turns],
        "truncated": [turn.stop_reason == "length" for turn in turns],
    }
    found = {name: fmean(values) for name, values in means.items() if values}
    if returns:
        found["reward_max"] = max(returns)
    found["groups"] = len(groups)
    found["rollouts"] = sum(len(group.rollouts) for group in groups)
    return found


def fitness_after(row: Sequence[Sample]) -> float:
    """Of what an episode leaves: its best program, a copy counting as its parent; 0 where no reply held one."""
    return max(s.parent_fitness if is_copy(s) else s.fitness or 0.0 for s in row)


def is_right(row: Sequence[Sample]) -> bool:
    """Whether a program of the episode passed every public test (kind open: gave a valid answer)."""
    return any((s.correctness or 0.0) >= RIGHT for s in row)


_REASONS = 20


def _distinct(group: Group) -> int:
    """Different programs (by normal form) among the last replies, the parent not counted."""
    lasts = [row[-1] for row in group.samples if row]
    return len({s.program_hash for s in lasts if s is not None and s.program_hash and not is_copy(s)})


def _short(reason: str) -> str:
    return " ".join(reason.split())[:160]


def _total(row: Sequence[Scored | None]) -> float | None:
    known = [one.reward for one in row if one is not None and one.reward is not None]
    return sum(known) if known and len(known) == len(row) else None
