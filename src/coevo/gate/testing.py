"""The gate's test of a gain: paired by task, sequential, exact under "both arms are alike".

Unit of a claim: the task. At each look both arms give fresh samples on the same tasks; what is tested is the mean over tasks of
(mean of the child's samples so far) - (mean of the parent's samples so far). `coevo.stats.flipped_paths` gives its distribution if the
arms' names meant nothing, and the spending plan cuts its upper end into looks. docs/gate.md holds the measured levels, and those of the
tests that were not chosen.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from coevo.gate.settings import GateConfig
from coevo.gate.types import Look, Verdict
from coevo.stats import FlippedPaths, flipped_paths, plan_boundaries, plan_drift, spent

MOST_TASKS = 10_000
"""More than this "would settle it" means that nothing would."""
RESAMPLES = 9_999
"""Random sign patterns, beside the one observed: no p is smaller than 1 in one more of them."""
_HALVINGS = 24


class Plan(NamedTuple):
    """How one-sided `alpha` is spread over the looks."""

    alpha: float
    looks: int
    spending: str
    allowed: tuple[float, ...]
    """Share of alpha that may have been spent by each look."""

    @classmethod
    def of(cls, config: GateConfig, alpha: float, looks: int | None = None) -> Plan:
        planned = config.looks if looks is None else looks
        shares = tuple(spent(config.spending, j / planned, alpha) for j in range(1, planned + 1))
        return cls(alpha, planned, config.spending, shares)

    def at(self, alpha: float) -> Plan:
        """The same plan at another level."""
        shares = tuple(spent(self.spending, j / self.looks, alpha) for j in range(1, self.looks + 1))  # type: ignore[arg-type]
        return self._replace(alpha=alpha, allowed=shares)

    def drift(self, power: float) -> float:
        """Expected z at the last look that is found with `power`."""
        return plan_drift(self.spending, self.looks, self.alpha, power)  # type: ignore[arg-type]


class Estimate(NamedTuple):
    """What the looks so far say, at the level that the plan allows at this look."""

    difference: float
    low: float
    high: float
    p: float
    """The smallest alpha under which the plan would have promoted by now."""
    sd: float
    """Over tasks, of the differences so far."""
    tasks: int


def cumulated(looks: Sequence[Look], tasks: Sequence[str], *, worst: bool = False) -> np.ndarray:
    """(tasks, looks): mean of the child's samples so far less the mean of the parent's; NaN until both arms have one. `worst`: as if each sample
    that the child lacks were the least that was seen of anybody."""
    least = min(
        (v for x in looks for arm in (x.parent, x.child) for some in arm.values() for v in some if v is not None),
        default=0.0,
    )
    sums = np.zeros((2, len(tasks), len(looks)))
    counts = np.zeros_like(sums)
    for j, look in enumerate(looks):
        for arm, samples in enumerate((look.parent, look.child)):
            for i, task in enumerate(tasks):
                known = [value for value in samples.get(task, ()) if value is not None]
                if worst and arm:
                    known += [least] * (len(samples.get(task, ())) - len(known))
                sums[arm, i, j], counts[arm, i, j] = math.fsum(known), len(known)
    sums, counts = sums.cumsum(axis=2), counts.cumsum(axis=2)
    with np.errstate(invalid="ignore", divide="ignore"):
        means = sums / counts
    return means[1] - means[0]


def walk(
    config: GateConfig, plan: Plan, paths: np.ndarray, *, goal: float | None, seed: int, resamples: int = RESAMPLES
) -> tuple[Verdict | None, int, str]:
    """Where the test ends on `paths` (tasks, looks so far): verdict, look and why; (None, looks, "") while it is open.

    At each look in turn: *promoted* when the observed mean crosses the upper boundary for "no gain", unless a gain of `config.min_gain` is
    excluded; *rejected* when a gain of `goal` is excluded by the mirrored plan (so a gain of that size is rejected at most at rate
    alpha); *inconclusive* when the predictive power is under `config.futility`, or after the last look. `goal` None: what this
    plan detects at `config.power`, by the spread seen so far.
    """
    flips = flipped_paths(paths, seed=seed, resamples=resamples)
    looks = paths.shape[1]
    allowed = plan.allowed[:looks]
    up = flips.crossing(allowed)
    worth = goal if goal is not None else detectable_by(config, plan, paths)
    down = flips.crossing(allowed, shift=max(worth, config.min_gain), below=True)
    small = flips.crossing(allowed, shift=config.min_gain, below=True) if config.min_gain else 0
    final_z = plan_boundaries(plan.spending, plan.looks, plan.alpha)[-1]  # type: ignore[arg-type]
    for look in range(1, looks + 1):
        if small and small <= look:
            return Verdict.REJECTED, look, f"a gain of {config.min_gain:g} is excluded"
        if up == look:
            return Verdict.PROMOTED, look, "the gain is over the boundary of this look"
        if down == look:
            return Verdict.REJECTED, look, f"a gain of {max(worth, config.min_gain):.3f} is excluded"
        if look < plan.looks and predictive_power(paths[:, look - 1], look / plan.looks, final_z) < config.futility:
            return Verdict.INCONCLUSIVE, look, f"further looks would promote it with a chance under {config.futility:g}"
    if looks < plan.looks:
        return None, looks, ""
    if not np.nan_to_num(paths[:, -1]).any():
        return Verdict.REJECTED, looks, "no task differs"
    return Verdict.INCONCLUSIVE, looks, "neither a gain nor its absence is certain after the last look"


def predictive_power(differences: np.ndarray, fraction: float, final_z: float) -> float:
    """Chance of z >= `final_z` at the last look, given the differences (NaN: unmeasured) at information `fraction`: conditional power
    averaged over what the effect may be, given a flat prior (Spiegelhalter, Freedman and Blackburn 1986). With z now,
    the last z is z / sqrt(t) with variance (1 - t) / t."""
    from scipy import special

    known = differences[np.isfinite(differences)]
    sd = float(known.std(ddof=1)) if len(known) > 1 else 0.0
    z = float(known.mean()) / (sd / math.sqrt(len(known))) if sd > 0 else 0.0
    return float(special.ndtr((z / math.sqrt(fraction) - final_z) / math.sqrt((1 - fraction) / fraction)))


def detectable(config: GateConfig, noise: float, tasks: int, *, share: float = 1.0) -> float:
    """Minimum detectable effect: the true mean gain that the plan promotes with probability `config.power`, given the `noise` of a
    `Calibration` (over tasks, at the whole plan's samples) and so many tasks. By the normal approximation, and for a change that
    helps all tasks alike: real changes differ between tasks and take more."""
    if tasks < 1:
        return math.inf
    return Plan.of(config, config.alpha * share).drift(config.power) * noise / math.sqrt(tasks)


def detectable_by(config: GateConfig, plan: Plan, paths: np.ndarray) -> float:
    """The same from the spread seen so far, as if all of it were sampling noise."""
    looks = paths.shape[1]
    known = paths[:, -1][np.isfinite(paths[:, -1])]
    if len(known) < 2:
        return math.inf
    noise = float(known.std(ddof=1)) * math.sqrt(looks / plan.looks)
    return plan.drift(config.power) * noise / math.sqrt(len(known))


def estimate(plan: Plan, paths: np.ndarray, *, seed: int, resamples: int = RESAMPLES) -> Estimate:
    """Difference, repeated confidence interval and repeated p-value (Jennison and Turnbull 1989) at the last look of `paths`.

    The bounds are the shifts that the plan would just not refuse: both are at the one-sided level, valid at whatever look one stops.
    A bound is infinite where the plan has not spent enough to refuse anything.
    """
    flips = flipped_paths(paths, seed=seed, resamples=resamples)
    known = paths[:, -1][np.isfinite(paths[:, -1])]
    if not len(known):
        return Estimate(math.nan, -math.inf, math.inf, 1.0, math.nan, 0)
    allowed = plan.allowed[: paths.shape[1]]
    mean = float(known.mean())
    sd = float(known.std(ddof=1)) if len(known) > 1 else math.nan
    reach = 4.0 * max(float(np.nanmax(np.abs(paths))), 1e-9)
    low = _edge(lambda shift: bool(flips.crossing(allowed, shift=shift)), mean, mean - reach)
    high = _edge(lambda shift: bool(flips.crossing(allowed, shift=shift, below=True)), mean, mean + reach)
    return Estimate(mean, low, high, _smallest_alpha(plan, flips, paths.shape[1]), sd, len(known))


def _edge(refused: Callable[[float], bool], inside: float, outside: float) -> float:
    """Between a shift that is not refused and one that is: where refusing begins."""
    if not refused(outside):
        return math.copysign(math.inf, outside - inside)
    for _ in range(_HALVINGS):
        middle = (inside + outside) / 2
        inside, outside = (inside, middle) if refused(middle) else (middle, outside)
    return (inside + outside) / 2


def _smallest_alpha(plan: Plan, flips: FlippedPaths, looks: int) -> float:
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS // 2):
        middle = (low + high) / 2
        crosses = flips.crossing(plan.at(middle).allowed[:looks]) > 0
        low, high = (low, middle) if crosses else (middle, high)
    return high


def to_settle(config: GateConfig, plan: Plan, seen: Estimate, goal: float) -> int | None:
    """About how many tasks would settle it, if the difference and spread stay as seen: so that the plan promotes with `config.power`, or where
    the difference is none, excludes a gain of `goal`. None: more than anyone has."""
    distance = seen.difference if seen.difference > 0 else goal - seen.difference
    if not (math.isfinite(seen.sd) and distance > 0 and math.isfinite(distance)):
        return None
    tasks = math.ceil((plan.drift(config.power) * seen.sd / distance) ** 2)
    return max(tasks, seen.tasks + 1) if tasks <= MOST_TASKS else None


def lacking(looks: Sequence[Look]) -> int:
    """Samples that the child lacks."""
    return sum(counts_of(look.child)[1] for look in looks)


def counts_of(samples: Mapping[str, tuple[float | None, ...]]) -> tuple[int, int]:
    """(samples, unmeasured ones)."""
    values = [value for row in samples.values() for value in row]
    return len(values), sum(value is None for value in values)
