"""Which test the gate should use: how often each promotes a child that is no better, and one that is.

    python benchmarks/bench_gate.py [--trials 2000] [--spending obrien_fleming]

Worlds: `u_shaped` pass rates, mean 0.34, 4 samples a look; `ties`, where four of five tasks
are always or never passed; `continuous`, a skewed fitness; `uneven`, a child that is much better on one task in ten and a little worse on
the others, mean 0, which is no twin; `one_task`, where a single task improves for sure and all else repeats itself. Tests: `flip`, the
gate's; `t` and `boot` (studentized bootstrap) at the nominal levels of the same spending plan; `peek`, t at 5 % at every look; `one_se`, mean
over one standard error at the last look.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np
from scipy import stats

from coevo.gate.settings import GateConfig
from coevo.gate.testing import Plan
from coevo.gate.twins import paths_of, raised
from coevo.stats import flipped_paths, plan_boundaries
from coevo.streams import array_stream

LOOKS, SAMPLES, ALPHA = 3, 4, 0.05
TASKS = (12, 24, 50, 100)
RESAMPLES = 1_999


def u_shaped(rng: np.random.Generator, n: int, gain: float) -> np.ndarray:
    rates = np.clip(rng.beta(0.35, 0.68, n), 1e-6, 1 - 1e-6)
    return _binary(rng, rates, raised(rates, gain))


def ties(rng: np.random.Generator, n: int, gain: float) -> np.ndarray:
    fixed = rng.random(n) < 0.8
    rates = np.where(fixed, (rng.random(n) < 0.34).astype(float), rng.random(n))
    better = np.where(fixed, rates, np.clip(rates + 5 * gain, 0, 1))
    return _binary(rng, rates, better)


def continuous(rng: np.random.Generator, n: int, gain: float) -> np.ndarray:
    level = rng.random((n, 1, 1))
    parent, child = (np.clip(level - 0.3 * rng.exponential(0.5, (n, LOOKS, SAMPLES)), 0, None) for _ in range(2))
    return paths_of(parent, child + gain)


def uneven(rng: np.random.Generator, n: int, gain: float) -> np.ndarray:
    rates = rng.uniform(0.1, 0.5, n)
    effect = np.where(rng.random(n) < 0.1, 0.45, -0.05) + gain
    return _binary(rng, rates, np.clip(rates + effect, 0, 1))


def one_task(rng: np.random.Generator, n: int, gain: float) -> np.ndarray:
    parent = np.repeat((np.arange(n) % 2).astype(float), LOOKS).reshape(n, LOOKS, 1)
    child = parent.copy()
    child[0] = 1.0
    return paths_of(parent, child)


def _binary(rng: np.random.Generator, rates: np.ndarray, better: np.ndarray) -> np.ndarray:
    shape = (len(rates), LOOKS, SAMPLES)
    parent, child = (rng.random(shape) < p[:, None, None] for p in (rates, better))
    return paths_of(parent.astype(float), child.astype(float))


World = Callable[[np.random.Generator, int, float], np.ndarray]
WORLDS: tuple[World, ...] = (u_shaped, ties, continuous, uneven, one_task)


def shares(world: World, n: int, gain: float, trials: int, plan: Plan) -> dict[str, float]:
    """Test -> share promoted."""
    bounds = plan_boundaries(plan.spending, LOOKS, ALPHA)  # type: ignore[arg-type]
    levels = stats.norm.sf(bounds)
    paths = np.stack([world(array_stream(1, world.__name__, n, str(gain), i), n, gain) for i in range(trials)])
    flip = np.mean(
        [flipped_paths(p, seed=i, resamples=RESAMPLES).crossing(plan.allowed) > 0 for i, p in enumerate(paths)]
    )
    mean, sd = paths.mean(axis=1), paths.std(axis=1, ddof=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        t = np.where(sd > 0, mean / (sd / np.sqrt(n)), np.where(mean > 0, np.inf, 0.0))
    t_p = stats.t.sf(t, n - 1)
    boot_p = np.stack([_bootstrap_p(paths[:, :, j], t[:, j], n) for j in range(LOOKS)], axis=1)
    return {
        "flip": float(flip),
        "t": float((t_p <= levels).any(axis=1).mean()),
        "boot": float((boot_p <= levels).any(axis=1).mean()),
        "peek": float((t_p <= ALPHA).any(axis=1).mean()),
        "one_se": float((t[:, -1] > 1 - 1e-9).mean()),
    }


def _bootstrap_p(differences: np.ndarray, t: np.ndarray, n: int) -> np.ndarray:
    """Share of studentized resampled means at least as large; (trials,). One set of resamples serves all trials."""
    weights = array_stream(2, "bootstrap", n).multinomial(n, np.full(n, 1 / n), RESAMPLES) / n
    means, squares = differences @ weights.T, np.square(differences) @ weights.T
    sd = np.sqrt(np.maximum(squares - means**2, 0) * n / (n - 1))
    centred = means - differences.mean(axis=1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        resampled = np.where(sd > 1e-12, centred / (sd / np.sqrt(n)), np.inf * np.sign(centred))
    resampled = np.nan_to_num(resampled, nan=0.0, posinf=np.inf, neginf=-np.inf)
    return (1 + (resampled >= t[:, None]).sum(axis=1)) / (1 + RESAMPLES)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--trials", type=int, default=2000)
    parser.add_argument("--spending", default="obrien_fleming", choices=["obrien_fleming", "pocock", "linear"])
    args = parser.parse_args()
    plan = Plan.of(GateConfig(alpha=ALPHA, looks=LOOKS, samples=SAMPLES, spending=args.spending), ALPHA)
    print("world\ttasks\tgain\tflip\tt\tboot\tpeek\tone_se")
    begin = time.monotonic()
    for world in WORLDS:
        for n in TASKS:
            for gain in (0.0, 0.08) if world is not one_task else (0.0,):
                found = shares(world, n, gain, args.trials, plan)
                print(world.__name__, n, gain, *(f"{share:.3f}" for share in found.values()), sep="\t", flush=True)
    print(f"trials: {args.trials}\nseconds: {time.monotonic() - begin:.0f}")


if __name__ == "__main__":
    main()
