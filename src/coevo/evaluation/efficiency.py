"""How fast is a program beside the reference? The statistics; `coevo.evaluation.timing` makes the runs.

A pair is one timed run of the reference and one of the candidate on the same fresh inputs, each in a fresh process, one
right after the other, the order alternating. What is timed is CPU time (user + system, as the kernel counts it).

Noise on a shared machine only ever adds time, so each side is best described by its fastest run, and what is left of a
change in the machine's speed falls on both sides alike: the speed-up is the *ratio of the minima*. Pairs are added until
that ratio is confirmed: until leaving out the fastest run of either side would move the efficiency by no more than `spread`
(the second fastest agrees with the fastest: the K-best scheme of Bryant and O'Hallaron, Computer Systems, with K = 2), or
until `max_pairs` or `cpu_s` is spent.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import Field

from coevo.config import Config
from coevo.evaluation.fitness import efficiency_of


class EfficiencyConfig(Config):
    """How carefully programs are timed."""

    pairs: int = Field(default=5, ge=2, le=100)
    """Timed pairs at least."""
    max_pairs: int = Field(default=15, ge=2, le=1000)
    """Timed pairs at most."""
    spread: float = Field(default=0.004, gt=0, le=0.5)
    """Stop when leaving out the fastest run of a side moves s / (1 + s) by at most this (0.004 is 1.6% of the time at s = 1)."""
    tie: float = Field(default=0.05, ge=0, lt=1)
    """Times that differ by less than this share are the same speed: s is then exactly 1."""
    slow: float = Field(default=0.25, ge=0, le=1)
    """Two pairs suffice once they agree that the speed-up is below this; more precision would change nothing."""
    cpu_s: float = Field(default=60.0, gt=0, le=86_400)
    """No further pair once the runs of both sides have used this many CPU seconds."""


@dataclass(frozen=True)
class Speed:
    """Times of the timed runs, pair by pair, in CPU seconds."""

    reference: tuple[float, ...]
    candidate: tuple[float, ...]

    @property
    def pairs(self) -> int:
        return len(self.candidate)

    @property
    def ratio(self) -> float:
        """Ratio of the minima: above 1, the candidate is faster."""
        return _ratio(self.reference, self.candidate)

    @property
    def spread(self) -> float:
        """How far the efficiency would move, at most, without the fastest run of one side; infinite for a single pair."""
        if self.pairs < 2:
            return float("inf")
        whole = efficiency_of(self.ratio)
        without = _ratio(sorted(self.reference)[1:], self.candidate), _ratio(self.reference, sorted(self.candidate)[1:])
        return max(abs(efficiency_of(ratio) - whole) for ratio in without)

    def speedup(self, tie: float) -> float:
        """The ratio, or exactly 1 for a difference that is a tie."""
        return 1.0 if is_tie(self.ratio, tie) else self.ratio


def enough(speed: Speed, config: EfficiencyConfig) -> bool:
    """Whether no further pair is needed (or allowed)."""
    if speed.pairs >= config.max_pairs or sum(speed.reference) + sum(speed.candidate) >= config.cpu_s:
        return True
    if speed.pairs < 2 or speed.spread > config.spread:
        return False
    return speed.pairs >= config.pairs or speed.ratio < config.slow


def is_tie(ratio: float, tie: float) -> bool:
    """Whether two times with this ratio differ by less than the share `tie` of the longer one."""
    return min(ratio, 1 / ratio) > 1 - tie if ratio > 0 else False


def _ratio(reference: Sequence[float], candidate: Sequence[float]) -> float:
    # The kernel counts CPU time in nanoseconds; a run of none at all is not believed.
    return max(min(reference), 1e-6) / max(min(candidate), 1e-6)
