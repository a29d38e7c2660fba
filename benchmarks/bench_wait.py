"""How long training waits for rewards: a real run of trainer `grpo`, its rewards from executing what the policy writes.

    python benchmarks/bench_wait.py [--base mini:tiny|FOLDER] [--tasks FOLDER] [--groups 8] [--size 8] [--steps 12] [--pool local:2]

A step's wait is from the last token sampled to the last verdict: judging goes on while other replies are still sampled, so only its
tail is waited for. The first two steps are left out (workers and caches start there). Prints one line a step and, last, `wait_share`.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from coevo.config import parse
from coevo.training.history import curve
from coevo.training.session import begin
from coevo.training.settings import Recipe

WARM = 2


def measure(
    base: str | Path,
    tasks: list[str],
    *,
    groups: int = 8,
    size: int = 8,
    steps: int = 12,
    pool: str = "local:2",
    truth: float = 1.0,
    max_tokens: int = 96,
) -> dict[str, Any]:
    """`wait_share` (median over steps of wait / wall), seconds per step and part, of a run in a folder that is thrown away."""
    recipe = parse(
        Recipe,
        {
            "base": str(base),
            "steps": steps + WARM,
            "groups": groups,
            "group_size": size,
            "states": {"tasks": tasks},
            "episode": {"max_tokens": max_tokens, "truth": truth},
            "reward": {"parts": {"absolute": 1.0}},
            "filter": {"name": "none", "replace": 0},
            "pool": pool,
            "checkpoint_every": 10**6,
        },
        where="benchmark",
    )
    with tempfile.TemporaryDirectory() as folder, begin(recipe, Path(folder) / "run") as session:
        session.go(lambda p: print(f"step {p.step}: {_line(p.metrics)}", flush=True))
        rows = list(curve(session.run))[WARM:]
    parts = {
        name: median(row[name] for row in rows if name in row) for name in ("sample_s", "wait_s", "wall_s", "length")
    }
    share = median(row["wait_s"] / row["wall_s"] for row in rows)
    return {"batch": groups * size, "pool": pool, "truth": truth, **parts, "wait_share": share}


def _line(metrics: Any) -> str:
    return ", ".join(
        f"{name} {metrics[name]:.3f}" for name in ("sample_s", "wait_s", "wall_s", "truth") if name in metrics
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--base", default="mini:tiny")
    parser.add_argument("--tasks", help="a folder of tasks; default: 16 of the mini language")
    for name, value in (("groups", 8), ("size", 8), ("steps", 12), ("max-tokens", 96)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--pool", default="local:2")
    parser.add_argument("--truth", type=float, default=1.0)
    args = parser.parse_args()
    base = args.base
    if base.startswith("mini"):
        from coevo.mini.pretrain import mini_folder

        base = mini_folder(base.partition(":")[2] or "mini", notify=print)
    if args.tasks:
        tasks = [args.tasks]
    else:
        from coevo.mini.tasks import write_tasks

        tasks = [str(path) for path in write_tasks(part="train", count=16)]
    found = measure(
        base,
        tasks,
        groups=args.groups,
        size=args.size,
        steps=args.steps,
        pool=args.pool,
        truth=args.truth,
        max_tokens=args.max_tokens,
    )
    print(json.dumps(found))
    print(f"wait_share: {found['wait_share']:.3f}")


if __name__ == "__main__":
    main()
