"""How long `coevo diagnose` takes over a large run, and what it takes of the machine.

    python benchmarks/bench_diagnose.py [--rows 1000000] [--chars 500] [--formats parquet,jsonl] [--folder KEEP]

Makes rollouts (schema 1, all columns, prompts and responses of about `--chars` characters), then runs `coevo diagnose FILE --json` in a process of its own. Beside it,
in the same run: the floor, a process that scans the same file with pyarrow and looks at the length of every text, and nothing else. Prints one line a
format and kind: wall seconds, CPU seconds of the process and its children, and the highest sum of their resident memory, sampled ten times a second.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil

from coevo.streams import array_stream

GROUP = 8
GROUPS = 64
PIECE = 50_000

FLOOR = """
import sys
path = sys.argv[1]
if path.endswith(".parquet"):
    import pyarrow.compute as pc, pyarrow.parquet as pq
    batches = pq.ParquetFile(path).iter_batches(batch_size=4000)
else:
    import pyarrow.compute as pc, pyarrow.json as pj
    batches = pj.open_json(path)
total = 0
for batch in batches:
    for name in ("prompt", "response"):
        total += pc.sum(pc.utf8_length(batch.column(name))).as_py() or 0
    total += batch.num_columns
print(total)
"""


class Cost(NamedTuple):
    """What a command took."""

    wall_s: float
    cpu_s: float
    peak_mb: float
    output: str


def rollouts(rows: int, chars: int, seed: int = 0) -> Iterator[dict[str, list[Any]]]:
    """Columns of schema 1, a piece at a time: a run that learns slowly, with programs of its own in each response."""
    rng = array_stream(seed, "bench_diagnose")
    words = [
        f"{a}{b}"
        for a in ("ba", "ko", "mi", "ran", "tel", "su", "vor", "qui")
        for b in ("do", "ne", "rist", "la", "gu", "pem")
    ]
    for start in range(0, rows, PIECE):
        n = min(PIECE, rows - start)
        place = np.arange(start, start + n)
        step, task = 1 + place // (GROUP * GROUPS), place // GROUP % GROUPS
        right = rng.random(n) < 0.3 + 0.3 * place / rows
        pick = rng.integers(len(words), size=(n, max(1, chars // 10)))
        numbers = rng.integers(100_000, size=n)
        said = [" ".join([words[j] for j in line]) for line in pick]
        columns: dict[str, Any] = {
            "schema": np.ones(n, dtype=int),
            "step": step,
            "sample": place % GROUP,
            "reward": np.where(right, 1.0, rng.random(n) * 0.4),
            "truth": right.astype(float),
            "tokens": rng.integers(60, 400, size=n),
            "turns": np.ones(n, dtype=int),
            "tool_calls": np.zeros(n, dtype=int),
            "tool_errors": np.zeros(n, dtype=int),
            "advantage": rng.normal(size=n),
            "logprob_mean": -rng.random(n),
            "entropy_mean": rng.random(n),
            "wall_s": rng.random(n),
            "cost_usd": np.zeros(n),
            "parent_fitness": rng.random(n),
            "fitness": rng.random(n),
            "correctness": rng.random(n),
            "efficiency": rng.random(n),
            "depth": np.zeros(n, dtype=int),
        }
        listed = {name: column.tolist() for name, column in columns.items()}
        listed |= {name: right.tolist() for name in ("contract_ok", "meaning_ok")}
        listed |= {
            name: [value] * n
            for name, value in {
                "run": "bench",
                "branch": "b0",
                "split": "train",
                "kind": "function",
                "edit_kind": "rewrite",
            }.items()
        }
        listed |= {
            "unmeasured_reason": [""] * n,
            "kept": [None] * n,
            "stop_reason": ["stop" if r else "length" for r in right],
        }
        listed["task"] = [f"task-{t}" for t in task.tolist()]
        listed["group"] = [f"{s}.{t}" for s, t in zip(step.tolist(), task.tolist(), strict=True)]
        listed["program_hash"] = [f"{h:016x}" for h in rng.integers(1 << 60, size=n).tolist()]
        listed["parts"] = [{"correct": float(r), "speed": 0.5} for r in right.tolist()]
        listed["prompt"] = [
            f"# Task\n\nWrite solve for task {t}.\n{' '.join(words[t % 40 :] * (1 + chars // 400))}\nassert solve(1) == {1000 + t}\nassert solve(2) == {3000 + t}\n"
            for t in task.tolist()
        ]
        listed["response"] = [
            f"{text[: chars // 2]}\n\n```python\ndef solve(n):\n    # {text[chars // 2 :][:40]}\n    total = n * {k % 977}\n    for i in range({k % 13}):\n"
            f"        total += i * {k}\n    return total\n```\n{text[: chars // 4]}\n"
            for text, k in zip(said, numbers.tolist(), strict=True)
        ]
        yield listed


def write(path: Path, rows: int, chars: int) -> None:
    """The rollouts as a Parquet or JSONL file."""
    if path.suffix == ".jsonl":
        with path.open("w") as file:
            for columns in rollouts(rows, chars):
                for values in zip(*columns.values(), strict=True):
                    file.write(json.dumps(dict(zip(columns, values, strict=True))) + "\n")
        return
    import pyarrow as pa
    import pyarrow.parquet as pq

    writer = None
    for columns in rollouts(rows, chars):
        table = pa.table(
            {name: pa.array(values, pa.float64() if name == "kept" else None) for name, values in columns.items()}
        )
        writer = writer or pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    if writer:
        writer.close()


def cost_of(command: list[str]) -> Cost:
    """Runs a command to its end."""
    began = time.perf_counter()
    peak, cpu = 0.0, {}
    with tempfile.TemporaryFile("w+") as out:
        process = subprocess.Popen(command, stdout=out)
        root = psutil.Process(process.pid)
        while process.poll() is None:
            memory = 0
            for one in _family(root):
                try:
                    memory += one.memory_info().rss
                    times = one.cpu_times()
                    cpu[one.pid] = times.user + times.system
                except psutil.Error:
                    continue
            peak = max(peak, memory / 1e6)
            time.sleep(0.1)
        wall = time.perf_counter() - began
        if process.returncode:
            raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
        out.seek(0)
        return Cost(wall, sum(cpu.values()), peak, out.read())


def _family(root: psutil.Process) -> list[psutil.Process]:
    try:
        return [root, *root.children(recursive=True)]
    except psutil.Error:
        return []


def measure(path: Path) -> dict[str, Cost]:
    """Floor and diagnosis of one file, the file read once before both."""
    with path.open("rb") as file:
        while file.read(1 << 24):
            pass
    return {
        "floor": cost_of([sys.executable, "-c", FLOOR, str(path)]),
        "diagnose": cost_of([sys.executable, "-m", "coevo.cli.main", "diagnose", str(path), "--json"]),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--chars", type=int, default=500, help="characters of a prompt and of a response, about")
    parser.add_argument("--formats", default="parquet,jsonl")
    parser.add_argument("--folder", type=Path, help="keep the files here, and use those that are there")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = args.folder or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        for name in args.formats.split(","):
            path = folder / f"rollouts-{args.rows}-{args.chars}.{name}"
            if not path.exists():
                write(path, args.rows, args.chars)
            found = measure(path)
            report = json.loads(found["diagnose"].output)
            print(
                f"{name}: {args.rows:,} rows, {path.stat().st_size / 1e6:,.0f} MB, {len(report['findings'])} diagnostics"
            )
            for kind, cost in found.items():
                print(f"  {kind:9} wall {cost.wall_s:6.1f} s   cpu {cost.cpu_s:6.1f} s   peak {cost.peak_mb:6,.0f} MB")


if __name__ == "__main__":
    main()
