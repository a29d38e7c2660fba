"""How well is speed measured while the other cores are busy? Run by `make bench-efficiency`.

Each trial judges two programs whose true cost differs by a known share, as a search would: each in an evaluation of
its own, each against the reference. Right means that the cheaper one gets the higher speed-up. Two settings: programs near the
reference's speed (where a difference under 5% is a tie) and far from it. Programs that cost the same as the reference
should tie with it.

The load is made here: one process per core but one, alternately doing arithmetic and copying memory.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import yaml

from coevo.evaluation.efficiency import EfficiencyConfig
from coevo.evaluation.judge import Judge
from coevo.evaluation.types import Evaluation
from coevo.programs import Program
from coevo.tasks import load_task
from coevo.tasks.types import Task

BURN = """
import time
block = bytearray(32 << 20)
while True:
    end = time.monotonic() + 0.5
    while time.monotonic() < end:
        sum(range(10_000))
    end = time.monotonic() + 0.5
    while time.monotonic() < end:
        copy = bytes(block)
"""

STEPS = 8 * 28_000
"""Loop steps of one call of the reference: three calls take about 25 ms."""


def program(cost: float) -> str:
    """Right answers at `cost` times the reference's steps, spent the same way (mixed arithmetic, lists, dicts)."""
    return (
        "def work(items, rounds):\n"
        f"    wanted, more = rounds, round(rounds * {cost!r}) - rounds\n"
        "    def go(rounds):\n"
        "        seen, s = {}, 0\n"
        "        for i in range(rounds):\n"
        "            x = items[i % len(items)]\n"
        "            s = (s * 31 + x) % 1_000_003\n"
        "            seen[s & 255] = i\n"
        "        return s + len(seen)\n"
        "    answer = go(wanted)\n"
        "    if more > 0:\n"
        "        go(more)\n"
        "    return answer\n"
    )


def make_task(folder: Path) -> Task:
    config = {
        "name": "bench",
        "kind": "function",
        "entry": "work",
        "statement": "Do the work.",
        "tests": {"public": {"sizes": [8]}},
        "timing": {"size": STEPS // 8, "inputs": 3},
    }
    (folder / "task.yaml").write_text(yaml.safe_dump(config))
    for name in ("program", "reference"):
        (folder / f"{name}.py").write_text(program(1.0))
    (folder / "generate.py").write_text(
        "def generate(size, rng):\n    return [rng.randrange(1000) for _ in range(500)], 2 * size\n"
    )
    return load_task(folder)


def judged(judge: Judge, cost: float, seed: int) -> Evaluation:
    evaluation = judge.evaluate(Program.of(program(cost)), split="public", seed=seed)
    assert evaluation.correctness == 1 and evaluation.speedup is not None, evaluation.feedback
    return evaluation


def compare(judge: Judge, trials: int, cheap: float, dear: float, offset: int) -> dict[str, float]:
    """Share of trials that rank two costs right, and what it took."""
    right, executions, cpu, ratios = 0, 0, 0.0, []
    for trial in range(trials):
        order = (cheap, dear) if trial % 2 else (dear, cheap)
        found = {cost: judged(judge, cost, offset + 2 * trial + i) for i, cost in enumerate(order)}
        right += found[cheap].speedup > found[dear].speedup  # type: ignore[operator]
        executions += sum(2 * e.extra["timing"]["pairs"] for e in found.values())
        cpu += sum(e.cpu_s for e in found.values())
        ratios.append(found[cheap].extra["timing"]["ratio"] / found[dear].extra["timing"]["ratio"])
    ratios.sort()
    return {
        "true_ratio": dear / cheap,
        "ranked_right": right / trials,
        "ratio_median": ratios[trials // 2],
        "ratio_min": ratios[0],
        "ratio_max": ratios[-1],
        "executions_per_program": executions / (2 * trials),
        "cpu_s_per_program": cpu / (2 * trials),
    }


def ties(judge: Judge, trials: int, offset: int) -> dict[str, float]:
    """Share of trials in which a program that costs what the reference costs is called as fast."""
    found = [judged(judge, 1.0, offset + trial) for trial in range(trials)]
    ratios = sorted(e.extra["timing"]["ratio"] for e in found)
    return {
        "true_ratio": 1.0,
        "tied": sum(e.speedup == 1 for e in found) / trials,
        "ratio_min": ratios[0],
        "ratio_max": ratios[-1],
        "executions_per_program": sum(2 * e.extra["timing"]["pairs"] for e in found) / trials,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--trials", type=int, default=40)
    parser.add_argument("--idle", action="store_true", help="without the load")
    parser.add_argument("--json", type=Path, help="write the figures there too")
    args = parser.parse_args()
    burners = (
        []
        if args.idle
        else [subprocess.Popen([sys.executable, "-c", BURN]) for _ in range(max(1, (os.cpu_count() or 2) - 1))]
    )
    started = time.monotonic()
    try:
        with (
            tempfile.TemporaryDirectory() as folder,
            Judge(make_task(Path(folder)), efficiency=EfficiencyConfig()) as judge,
        ):
            results = {
                "10% apart, near the reference": compare(judge, args.trials, 1.0, 1.1, 0),
                "10% apart, slower than it": compare(judge, args.trials, 1.5, 1.65, 10_000),
                "no difference": ties(judge, args.trials, 20_000),
            }
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()
    print(
        f"{args.trials} trials each, {len(burners)} burners on {os.cpu_count()} cores, load average {os.getloadavg()[0]:.1f}"
    )
    for name, row in results.items():
        print(f"{name:32} " + "  ".join(f"{key} {value:.3g}" for key, value in row.items()))
    print(f"seconds: {time.monotonic() - started:.0f}")
    if args.json:
        args.json.write_text(json.dumps(results, indent=2) + "\n")
    worst = min(row["ranked_right"] for row in results.values() if "ranked_right" in row)
    print(f"ranked_right: {worst:.3f}")
    return 0 if worst >= 0.95 else 1


if __name__ == "__main__":
    sys.exit(main())
