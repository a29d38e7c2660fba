"""Do backtests of rewards predict what training with them gives? On trainer toy, whose true ability is known exactly.

    python benchmarks/bench_backtest.py [--seeds 3] [--steps 60] [--base 7]

A short base run is recorded under the default reward. Each of ten changes (rewards, advantages) is backtested on its rollouts, and trained from the start under
several seeds. Printed: four numbers of each backtest beside the mean ability (one edit, and the best of eight), and how well each number ranks them.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from statistics import fmean

from coevo.backtest import RewardBacktest, Trained, backtest_reward, track
from coevo.config import parse, with_sets
from coevo.evidence import open_evidence
from coevo.runs import Run
from coevo.training.history import curve
from coevo.training.settings import Recipe
from coevo.training.toy import train_toy

GAIN = "reward.parts={search_gain: 1}"
CHANGES = (
    (GAIN,),
    ("reward.parts={metaevolve: 1}",),
    ("reward.parts={difference: 1}",),
    ("reward.parts={lazy: 1}",),
    ("reward.parts={format: 1}",),
    ("reward.parts={search_gain: 1, format: 0.3}",),
    ("reward.parts={metaevolve: 1}", "reward.worse=-0.1"),
    (GAIN, "advantage.name=best_of_k", "advantage.unit=true"),
    (GAIN, "advantage.name=group_mean", "advantage.scale=5"),
    ("reward.parts={length: 1}",),
)
QUICK = {"trainer": "toy", "lr": 3e-5, "evaluate": {"every": 1000}, "filter": {"replace": 0}}


def recipe_of(*sets: str) -> Recipe:
    return parse(Recipe, with_sets(QUICK, sets), where="benchmark")


def trained(folder: Path, recipe: Recipe) -> dict[str, float]:
    with Run.create(folder, kind="train", config={"recipe": recipe.model_dump(mode="json")}) as run:
        train_toy(recipe, run)
        return list(curve(run))[-1]


def numbers(found: RewardBacktest) -> dict[str, float]:
    before, after = found.before, found.after
    pairs = {
        "on_gains": (after.on_gains, before.on_gains),
        "order": (found.order.after.score, found.order.before.score),
        "aligned": (after.aligned, before.aligned),
        "correlation": (after.correlation, before.correlation),
    }
    return {name: (a or 0.0) - (b or 0.0) for name, (a, b) in pairs.items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--base", type=int, default=7, help="seed of the base run")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        base = recipe_of(f"seed={options.base}", "steps=15")
        trained(Path(folder) / "base", base)
        frame = open_evidence(Path(folder) / "base").split("train")
        rows = []
        for i, change in enumerate(CHANGES):
            recipe = recipe_of(*change, f"steps={options.steps}")
            found = numbers(
                backtest_reward(frame, recipe.reward, recipe.advantage, recipe.filter, trained=Trained.of(base))
            )
            seeds = range(100 * options.base, 100 * options.base + options.seeds)
            ends = [trained(Path(folder) / f"{i}-{seed}", recipe.model_copy(update={"seed": seed})) for seed in seeds]
            rows.append((found, fmean(end["ability"] for end in ends), fmean(end["ability_8"] for end in ends)))
            told = " ".join(f"{name} {value:+.3f}" for name, value in found.items())
            print(f"{' '.join(change)}: {told}; ability {rows[-1][1]:.3f}, of eight {rows[-1][2]:.3f}", flush=True)
        for name in rows[0][0]:
            for what, at in (("ability", 1), ("ability_8", 2)):
                print(f"{name} against {what}: {track([(row[0][name], row[at]) for row in rows]).note}")


if __name__ == "__main__":
    main()
