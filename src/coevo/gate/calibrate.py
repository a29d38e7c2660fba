"""What the gate does where nothing is to be found, before it is believed where something might be: the parent against itself.

The parent is measured twice for real. From that, `trials` pairs of twins are drawn (`gate/twins.py`) and put through the gate's own test;
the share that is promoted must not be over alpha. The same with planted gains gives the power, and the noise gives the minimum detectable
effect, before anything is spent on a branch.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from coevo.errors import GateBlocked, UsageError
from coevo.gate.deciding import holdout_level
from coevo.gate.settings import GateConfig
from coevo.gate.testing import Plan, detectable, walk
from coevo.gate.twins import Tasks, paths_of
from coevo.gate.types import Calibration, Verdict
from coevo.stats import clopper_pearson, sign_flip_p
from coevo.streams import array_stream, stream_seed

GAINS = (0.02, 0.05, 0.08, 0.12)
PARITY = 0.001
"""Two measurements of one policy that differ by less than this chance are not of one thing."""
_RESAMPLES = 1_999
Samples = Mapping[str, Sequence[float | None]]
"""Task -> truth of each sample; None where it could not be measured."""


def calibrate(
    config: GateConfig,
    measured: Sequence[Samples],
    *,
    trials: int = 200,
    seed: int,
    holdout_tasks: int = 0,
    gains: Sequence[float] = GAINS,
) -> Calibration:
    """Calibrates on one or (better) two measurements of the parent. `false_promotions` and `power_at` are of the gate split; `confirmed_at` adds
    the first access to a holdout of `holdout_tasks` tasks, which lowers both.

    Noise is the larger of what samples within a task explain and what the two measurements of a task really differ by: it is larger where
    something differs between measurements that does not between samples. Raises `UsageError` for measurements that say nothing.
    """
    if not measured or trials < 1:
        raise UsageError("calibration needs one measurement of the parent or more, and one trial or more")
    names = [task for task in measured[0] if any(_known(m.get(task, ())) for m in measured)]
    pooled = [np.array([v for m in measured for v in _known(m.get(task, ()))], dtype=float) for task in names]
    if len(names) < config.min_tasks or max(map(len, pooled), default=0) < 2:
        most = max(map(len, pooled), default=0)
        raise UsageError(
            f"calibration needs {config.min_tasks} measured tasks (gate.min_tasks) with two samples or more; "
            f"there are {len(names)} with at most {most}"
        )
    tasks = Tasks.of(pooled)
    per_arm = config.samples * config.looks
    within = 2 * tasks.within() / per_arm
    between, parity = _between(measured, names, per_arm, seed)
    noise = math.sqrt(max(within, between))
    goal = detectable(config, noise, len(names))
    plan = Plan.of(config, config.alpha)
    rates = {g: _promoted(config, plan, tasks, len(names), holdout_tasks, g, goal, trials, seed) for g in (0.0, *gains)}
    hits = rates[0.0][0]
    share = clopper_pearson(hits, trials)
    return Calibration(
        noise=noise,
        false_promotions=share.estimate,
        low=share.low,
        high=share.high,
        trials=trials,
        detectable=goal,
        power_at={gain: rates[gain][0] / trials for gain in gains},
        confirmed_at={gain: rates[gain][1] / trials for gain in gains} if config.holdout and holdout_tasks else {},
        tasks=len(names),
        parity=parity,
    )


def refuse(config: GateConfig, calibration: Calibration) -> None:
    """Raises `GateBlocked` where the gate is no gate on these tasks: it promotes twins more often than alpha (the interval's lower end is
    over it), or the parent does not agree with itself. Says what to change."""
    if calibration.low > config.alpha:
        raise GateBlocked(
            f"the gate promotes {calibration.false_promotions:.1%} of twins (95 % interval {calibration.low:.1%} to "
            f"{calibration.high:.1%}, {calibration.trials} trials), over its alpha of {config.alpha:g}; "
            f"more gate tasks (now {calibration.tasks}) or samples (gate.samples, now {config.samples}) make it exact, "
            "and truth that is not measured alike for both arms has to be mended first"
        )
    if calibration.parity is not None and calibration.parity < PARITY:
        raise GateBlocked(
            f"two measurements of the same parent differ (p = {calibration.parity:.2g}); until the judge repeats itself "
            "(seeds, limits on time, load of the machine), no difference between two policies means anything"
        )


def _promoted(
    config: GateConfig,
    plan: Plan,
    tasks: Tasks,
    count: int,
    holdout: int,
    gain: float,
    goal: float,
    trials: int,
    seed: int,
) -> tuple[int, int]:
    """(promoted by the gate split, confirmed by the first holdout access as well) of so many trials."""
    promoted = confirmed = 0
    last = Plan.of(config, holdout_level(config, 1), looks=1)
    name = f"{gain:.6g}"
    for trial in range(trials):
        rng = array_stream(seed, "calibrate", name, trial)
        paths = paths_of(*tasks.looks(rng, tasks=count, looks=config.looks, samples=config.samples, gain=gain))
        draw = stream_seed(seed, "calibrate test", name, trial) % 2**63
        if walk(config, plan, paths, goal=goal, seed=draw, resamples=_RESAMPLES)[0] is not Verdict.PROMOTED:
            continue
        promoted += 1
        if config.holdout and holdout:
            samples = config.samples * config.looks
            again = paths_of(*tasks.looks(rng, tasks=holdout, looks=1, samples=samples, gain=gain))
            verdict = walk(config, last, again, goal=goal, seed=draw, resamples=_RESAMPLES)[0]
            confirmed += verdict is Verdict.PROMOTED
    return promoted, confirmed


def _between(measured: Sequence[Samples], names: Sequence[str], per_arm: int, seed: int) -> tuple[float, float | None]:
    """(variance over tasks of a twin difference at `per_arm` samples as the first two measurements show it, p that they agree).

    With one measurement, 0 and None. The variance of their own sample sizes is carried over to `per_arm` as if it were all sampling noise.
    """
    if len(measured) < 2:
        return 0.0, None
    differences, weights = [], []
    for name in names:
        a, b = _known(measured[0].get(name, ())), _known(measured[1].get(name, ()))
        if a and b:
            differences.append(float(np.mean(b) - np.mean(a)))
            weights.append((1 / len(a) + 1 / len(b)) * per_arm / 2)
    if len(differences) < 2:
        return 0.0, None
    variance = float(np.mean(np.square(differences)) / np.mean(weights))
    return variance, sign_flip_p(differences, seed=stream_seed(seed, "parity") % 2**63)


def _known(values: Sequence[float | None]) -> list[float]:
    return [float(v) for v in values if v is not None and math.isfinite(v)]
