"""The copy trap: what each reward makes of the same policy in trainer `toy`, whose true ability is known exactly.

    python benchmarks/bench_toy.py [--steps 150] [--seeds 1]

Prints a table: the ability of a single edit and of the best of 8 after training (means over seeds), the share of copies in the last steps, and the
reward as the policy saw it. The last row hard-codes public tests (`toy.leak`): its reward rises while its ability falls.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from statistics import fmean
from typing import Any

from coevo.cli.output import print_table
from coevo.config import parse
from coevo.runs import Run
from coevo.training.settings import Recipe
from coevo.training.toy import train_toy

CASES: dict[str, dict[str, Any]] = {
    "search_gain": {"reward": {"parts": {"search_gain": 1.0}}},
    "lazy": {"reward": {"parts": {"lazy": 1.0}}},
    "difference": {"reward": {"parts": {"difference": 1.0}}},
    "metaevolve": {"reward": {"parts": {"metaevolve": 1.0}}},
    "search_gain, leaky tests": {"reward": {"parts": {"search_gain": 1.0}}, "toy": {"leak": 0.8}},
}


def measure(changes: dict[str, Any], *, steps: int, seed: int) -> dict[str, float]:
    """The metrics of one run, in a folder that is thrown away."""
    recipe = parse(Recipe, {"trainer": "toy", "steps": steps, "seed": seed, **changes}, where="benchmark")
    with (
        tempfile.TemporaryDirectory() as folder,
        Run.create(Path(folder) / "run", kind="train", config={"recipe": recipe.model_dump(mode="json")}) as run,
    ):
        metrics = train_toy(recipe, run).metrics
    return {name: value for name, value in metrics.items() if isinstance(value, int | float)}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--seeds", type=int, default=1)
    args = parser.parse_args()
    rows: list[tuple[str, ...]] = []
    best = 0.0
    for name, changes in CASES.items():
        found = [measure(changes, steps=args.steps, seed=seed) for seed in range(args.seeds)]
        mean = {key: fmean(one[key] for one in found) for key in found[0] if all(key in one for one in found)}
        if not rows:
            rows.append(("untrained", _show(mean["ability_first"]), _show(mean["ability_8_first"]), "", ""))
            best = mean["ability_best"]
        reward = f"{mean['reward_mean_first']:.2f} -> {mean['reward_mean_last']:.2f}"
        copies = f"{mean['copy_rate_last']:.2f}"
        rows.append((name, _show(mean["ability_last"]), _show(mean["ability_8_last"]), copies, reward))
    print_table(("reward", "ability", "best of 8", "copy rate", "reward, first -> last steps"), rows)
    print(f"best possible ability: {best:.3f}")


def _show(value: float) -> str:
    return f"{value:.3f}"


if __name__ == "__main__":
    main()
