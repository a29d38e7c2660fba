"""Rewards: what a reply earns, as a weighted sum of named parts.

Every part is a pure function of a `Sample` (`novelty`: of its group) with its formula in the docstring; docs/rewards.md says when to
use which, and where each can be gamed. Below, f is the fitness of the new program and p that of its parent. A *copy of the parent* is
a program with the parent's normal form; replies that hand the parent back are rejected as `unchanged` and count as one. It has the
parent's fitness, whatever a clock would say.

    with reward_of(config) as reward:
        scored = reward(samples)        # of one group, and of one turn where episodes have several

A reward is a finite number of reasonable size, or there is none: `Scored(None, reason=...)`, and the sample is masked.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType

from coevo.evolution.types import Rejection
from coevo.training.novelty import mean_distances
from coevo.training.own import OwnRewards, is_own
from coevo.training.settings import RewardConfig
from coevo.training.types import Sample, Scored

BOUND = 1e6
"""A part or a sum beyond this is refused: next to it nothing else of the group would count."""

_RIGHT = 1 - 1e-9
_ROUNDING = 1e-12


def is_copy(sample: Sample) -> bool:
    """Whether the reply handed its parent back, by normal form."""
    if sample.rejection:
        return sample.rejection == Rejection.UNCHANGED
    return bool(sample.program_hash) and sample.program_hash == sample.parent_hash


def is_known(sample: Sample) -> bool:
    """Whether the program existed before: a copy of the parent, of an attempt shown, or of the archive, by normal form."""
    return is_copy(sample) or sample.program_hash in sample.history or sample.program_hash in sample.known


def fitness_of(sample: Sample) -> float | None:
    """f; the parent's for a copy of it. None where the reply held no program."""
    return sample.parent_fitness if is_copy(sample) else sample.fitness


def gain(sample: Sample, config: RewardConfig) -> float | None:
    """f - p, and exactly 0 within `tolerance`. None where the reply held no program."""
    fitness = fitness_of(sample)
    if fitness is None:
        return None
    difference = fitness - sample.parent_fitness
    return 0.0 if abs(difference) <= config.tolerance + _ROUNDING else difference


def metaevolve(sample: Sample, config: RewardConfig) -> float:
    """f - p if that is 0 or more, else `worse`; `no_program` without a program (MetaEvolve, arXiv 2607.21971).

    Handing the parent back earns 0, which beats trying wherever chance of gain x gain < chance of regression.
    """
    change = gain(sample, config)
    if change is None:
        return config.no_program
    return config.worse if change < 0 else change


def difference(sample: Sample, config: RewardConfig) -> float:
    """f - p; a reply without a program counts as f = 0 (LSE, arXiv 2603.18620, uses it as the advantage itself: `raw`)."""
    change = gain(sample, config)
    return -sample.parent_fitness if change is None else change


def absolute(sample: Sample, config: RewardConfig) -> float:
    """f; 0 without a program. Against a baseline of the same parent it is `difference`."""
    fitness = fitness_of(sample)
    return 0.0 if fitness is None else fitness


def lazy(sample: Sample, config: RewardConfig) -> float:
    """max(f - p, no_program) for a new program; `no_program` without one, and for a copy of parent, history or archive.

    So that copying never beats trying: a copy earns the least that any reply can.
    """
    change = gain(sample, config)
    if change is None or is_known(sample):
        return config.no_program
    return max(change, config.no_program)


def search_gain(sample: Sample, config: RewardConfig) -> float:
    """max(0, f - p); 0 without a program: what a search that keeps the parent gains by the reply."""
    return max(0.0, gain(sample, config) or 0.0)


def efficiency_only_if_correct(sample: Sample, config: RewardConfig) -> float:
    """The efficiency of a program that passes all public tests, else 0."""
    copied = is_copy(sample)
    correctness = sample.parent_correctness if copied else sample.correctness
    efficiency = sample.parent_efficiency if copied else sample.efficiency
    return efficiency if efficiency is not None and correctness is not None and correctness >= _RIGHT else 0.0


def format(sample: Sample, config: RewardConfig) -> float:
    """1 for a reply that could be read as a program (the parent's too), else 0."""
    return float(sample.contract_ok or is_copy(sample))


def length(sample: Sample, config: RewardConfig) -> float:
    """0 up to `length_soft` of the tokens allowed, from there linearly down to -1 at all of them.

    The soft overlong punishment of DAPO (arXiv 2503.14476, section 3.4). 0 where no bound is known.
    """
    soft = config.length_soft * sample.max_tokens
    if sample.max_tokens <= 0 or sample.tokens <= soft:
        return 0.0
    return -min(1.0, (sample.tokens - soft) / max(sample.max_tokens - soft, 1e-9))


def novelty(samples: Sequence[Sample], config: RewardConfig) -> list[float]:
    """For a program better than its parent and not known before: its mean distance (`coevo.training.novelty`) to the other programs of
    the group, in [0, 1]; else 0.

    Only improvements are paid: different junk, or a renamed parent, is easy to be different with.
    """
    paid = [i for i, s in enumerate(samples) if s.source and not is_known(s) and (gain(s, config) or 0.0) > 0]
    distances = mean_distances([s.source for s in samples], paid)
    return [distances.get(i, 0.0) for i in range(len(samples))]


PARTS: Mapping[str, Callable[[Sample, RewardConfig], float]] = {
    "metaevolve": metaevolve,
    "difference": difference,
    "absolute": absolute,
    "lazy": lazy,
    "search_gain": search_gain,
    "efficiency_only_if_correct": efficiency_only_if_correct,
    "format": format,
    "length": length,
}
"""Parts that look at one sample; `novelty` looks at the group, and PATH.py:FUNCTION is the user's own."""


class Reward:
    """Scores the samples of one group. Close it, or use it in a `with`: functions of the user's own have a worker."""

    def __init__(self, config: RewardConfig) -> None:
        """Raises `ConfigError` for a function of the user's own that cannot be loaded."""
        self.config = config
        own = [name for name in config.parts if is_own(name)]
        self._own = OwnRewards(own, timeout_s=config.timeout_s) if own else None

    def __call__(self, samples: Sequence[Sample]) -> list[Scored]:
        """One `Scored` per sample, in order. Raises nothing for what a sample holds or a function of the user's does."""
        found: list[dict[str, float]] = [{} for _ in samples]
        reasons = [_unfit(sample) for sample in samples]
        own = self._own(samples) if self._own else {}
        for name, weight in self.config.parts.items():
            if is_own(name):
                values = own[name]
            elif name == "novelty":
                values = [(value, "") for value in novelty(samples, self.config)]
            else:
                values = [(PARTS[name](sample, self.config), "") for sample in samples]
            for i, (value, reason) in enumerate(values):
                reasons[i] = reasons[i] or reason or _wrong(value, name)
                found[i][name] = weight * (value or 0.0)
        return [_scored(parts, reason) for parts, reason in zip(found, reasons, strict=True)]

    def close(self) -> None:
        if self._own:
            self._own.close()

    def __enter__(self) -> Reward:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def reward_of(config: RewardConfig) -> Reward:
    """The reward that a recipe describes: a function of a group's samples. Raises `ConfigError` for a function that cannot be loaded."""
    return Reward(config)


def _scored(parts: Mapping[str, float], reason: str) -> Scored:
    if reason:
        return Scored(None, reason=reason)
    total = math.fsum(parts.values())
    if wrong := _wrong(total, "the sum"):
        return Scored(None, reason=wrong)
    return Scored(total, parts)


def _unfit(sample: Sample) -> str:
    """Which measurement of a sample is no number. Checked first, since `max(0, nan)` would make a zero of it."""
    for name in ("fitness", "parent_fitness", "correctness", "efficiency", "parent_correctness", "parent_efficiency"):
        value = getattr(sample, name)
        if value is not None and not math.isfinite(value):
            return f"{name} is not finite ({value})"
    return ""


def _wrong(value: float | None, name: str) -> str:
    """What keeps a value from being a reward; empty for a good one."""
    if value is None:
        return f"{name}: no value"
    if not math.isfinite(value):
        return f"{name}: not finite ({value})"
    return f"{name}: {value:.3g} is beyond {BOUND:g}" if abs(value) > BOUND else ""
