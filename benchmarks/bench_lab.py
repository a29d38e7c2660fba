"""What a lab is worth: arms at one budget on the toy trainer, and one real lab on a mini model.

    python benchmarks/bench_lab.py                 both; writes docs/results/lab and docs/results/lab-mini (make bench-lab)
    python benchmarks/bench_lab.py --only toy      six arms, 30 seeds, each seed with other faults planted in its first recipe
    python benchmarks/bench_lab.py --only mini     six rounds of the playbook on a recipe with three planted faults, trainer grpo
    python benchmarks/bench_lab.py --seeds 2       fewer seeds, to see that it runs; writes nothing into docs/

Killed, the same command goes on. Nothing here is timed. Tables, data and pictures come from `coevo lab compare` and from the lab's report.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from coevo.lab.apart import shown_answers
from coevo.tasks.sets import load_tasks

ROOT = Path(__file__).parent.parent
RUNS = ROOT / "runs"

FAULTS: tuple[dict[str, Any], ...] = (
    {"toy.bonus": 0.3},
    {"toy.leak": 0.6},
    {"toy.levels": 2},
    {"lr": 3e-3},
    {"reward.parts": {"metaevolve": 1.0}},
    {"toy.bonus": 0.3, "toy.leak": 0.6, "lr": 1e-4},
    {"lr": 1e-6, "toy.leak": 0.6},
    {"toy.levels": 2, "toy.bonus": 0.2},
    {"lr": 1e-6},
    {"reward.parts": {"metaevolve": 1.0}, "toy.bonus": 0.2},
)
"""Of the first recipe, by seed: a shaped bonus, leaky tests, tied rewards, rates far too high and far too low, the reward that pays for copies."""

TOY: dict[str, Any] = {
    "lab": {
        "name": "toy",
        "recipe": {"trainer": "toy", "lr": 1e-5},
        "steps": 24,
        "budget": {"rounds": 4},
        "calibration": 60,
        "prune": {"rungs": 0},
    },
    "variants": list(FAULTS),
    "human": {"lr": 1e-5, "reward.parts": {"search_gain": 1.0}},
}
"""The human knows what a good recipe looks like (rate, reward), and not what is wrong with this world's tests and bonus."""


def toy(seeds: int, parallel: int, results: Path | None) -> int:
    config = RUNS / "bench-lab-toy.yaml"
    RUNS.mkdir(exist_ok=True)
    config.write_text(yaml.safe_dump({**TOY, "seeds": seeds, "parallel": parallel}), encoding="utf-8")
    command = [*_coevo(), "lab", "compare", str(RUNS / f"bench-lab-toy-{seeds}"), "--config", str(config)]
    if results is not None:
        command += ["--results", str(results)]
    return subprocess.run(command, cwd=ROOT).returncode


# The real one: trainer grpo on the mini model


def tasks(folder: Path) -> dict[str, str]:
    """Puzzles of the seen families: what trains, what selects and what confirms or reports come from parts that share no solution."""
    parts = {
        "train": ("train", 0, 80),
        "gate": ("validation", 0, 48),
        "holdout": ("test", 1, 48),
        "report": ("test", 2, 48),
    }
    for name, (part, seed, count) in parts.items():
        if not (folder / name).exists():
            command = [
                "mini",
                "tasks",
                str(folder / name),
                "--part",
                part,
                "--count",
                str(count),
                "--seed",
                str(seed),
            ]
            subprocess.run([*_coevo(), *command], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    _take_out_what_shows_answers(folder)
    return {name: str(folder / name) for name in parts}


def _take_out_what_shows_answers(folder: Path) -> None:
    """Spoilt start programs of one puzzle are now and then the answer of another; a lab refuses such tasks to train on."""
    training, gate, holdout, report = (
        load_tasks((str(folder / name),)) for name in ("train", "gate", "holdout", "report")
    )
    for name in shown_answers(training, [*gate, *holdout]).keys() | shown_answers(training, report).keys():
        shutil.rmtree(folder / "train" / name)


REWARDS = '''"""Two reward functions whose author meant well."""


def coarse(sample):
    """1 for a program that passes every public test, else 0: on these puzzles nearly all groups are ties."""
    return 1.0 if sample.correctness == 1.0 else 0.0


def smoke(sample):
    """A leaky test: anything that runs passes it."""
    return 1.0 if sample.fitness is not None else 0.0
'''


SEARCH: dict[str, Any] = {
    "steps": 24,
    "batch": 4,
    "islands": 1,
    "inspirations": 0,
    "history": 1,
    "repair": 0.0,
    "verify": False,
    "proposers": {"rewrite": 1.0},
}
"""As the mini model was pre-trained on prompts: one earlier attempt, no other programs."""


def mini(rounds: int, steps: int, results: Path | None) -> int:
    folder = RUNS / "bench-lab-mini"
    folder.mkdir(parents=True, exist_ok=True)
    reward = folder / "rewards.py"
    reward.write_text(REWARDS, encoding="utf-8")
    splits = tasks(folder / "tasks")
    recipe = {
        "base": "mini",
        "lr": 5e-3,
        "schedule": "linear",
        "groups": 12,
        "group_size": 16,
        "states": {
            "mix": {"policy": 1.0},
            "tasks": [splits["train"]],
            "refresh": 10,
            "searches": 16,
            "search": SEARCH,
        },
        "reward": {"parts": {f"{reward}:coarse": 1.0, f"{reward}:smoke": 0.5}},
        "advantage": {"name": "group_zscore"},
        "filter": {"name": "zero_spread", "replace": 0},
        "episode": {"max_tokens": 48, "truth": 0.5},
        "engine": {"threads": 1},
    }
    lab = {
        "name": "mini",
        "recipe": recipe,
        "tasks": {name: [path] for name, path in splits.items()},
        "steps": steps,
        "branches": 2,
        "parallel": 2,
        "budget": {"rounds": rounds},
        "gate": {"samples": 4},
    }
    config = folder / "lab.yaml"
    config.write_text(yaml.safe_dump(lab), encoding="utf-8")
    run = folder / "lab"
    command = [*_coevo(), "lab", "run", str(run)] + ([] if (run / "run.db").exists() else ["--config", str(config)])
    code = subprocess.run(command, cwd=ROOT).returncode
    if not code and results is not None:
        results.mkdir(parents=True, exist_ok=True)
        for name in ("report.md", "report.json"):
            shutil.copy2(run / "artifacts" / name, results / name)
        (results / "lab.yaml").write_text(config.read_text(encoding="utf-8").replace(f"{ROOT}/", ""), encoding="utf-8")
        print(json.dumps(json.loads((run / "artifacts" / "report.json").read_text())["final"]))
    return code


def _coevo() -> list[str]:
    return [sys.executable, "-m", "coevo.cli.main"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=("toy", "mini"))
    parser.add_argument("--seeds", type=int, default=30)
    parser.add_argument("--parallel", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--steps", type=int, default=60)
    given = parser.parse_args()
    whole = (given.seeds, given.rounds, given.steps) == (30, 6, 60)
    docs = ROOT / "docs" / "results" if whole else None
    code = 0
    if given.only != "mini":
        code = toy(given.seeds, given.parallel, docs and docs / "lab")
    if given.only != "toy":
        code = mini(given.rounds, given.steps, docs and docs / "lab-mini") or code
    return code


if __name__ == "__main__":
    sys.exit(main())
