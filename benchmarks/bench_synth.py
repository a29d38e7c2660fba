"""Synthesis at size: rows, seconds and the driver's memory, for answers that are executed and arranged, and for reading all of it back.

    python benchmarks/bench_synth.py [--tasks 320] [--answers 12] [--histories 40] [--pool local:2]

The defaults make some 100,000 rows, as the figure in docs/log.md. Tasks are puzzles of docs/mini.md; answers are programs of their language with cases drawn at
random, so judging is real and nothing is sampled from a model. Prints one JSON object.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from coevo.mini.families import EXPRESSIONS, source
from coevo.mini.tasks import write_tasks
from coevo.streams import stream
from coevo.trajectories.folder import read_states
from coevo.trajectories.synth import synthesize

CASES = 4
"""Of the puzzles used here."""


def answers(tasks: Sequence[Path], count: int) -> Iterator[dict[str, str]]:
    """Rows of an answers file: different programs, each as likely right in a case as any other."""
    for task in tasks:
        rng = stream(0, "bench-synth", task.name)
        for _ in range(count):
            yield {"task": task.name, "program": source("chain", [rng.choice(list(EXPRESSIONS)) for _ in range(CASES)])}


def measure(*, tasks: int, count: int, histories: int, pool: str) -> dict[str, Any]:
    """All figures of one synthesis in a folder that is thrown away. `peak_mb` is of this process: judging happens in others."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        paths = write_tasks((f"chain{CASES}",), part="train", count=tasks, folder=folder / "tasks")
        file = folder / "answers.jsonl"
        with file.open("w") as out:
            out.writelines(json.dumps(row) + "\n" for row in answers(paths, count))
        settings = {
            "diversity": {"measure": "none", "keep": count, "nearest": 0.0},
            "arrange": {"histories": histories, "earlier_min": 0},
            "mix": {"right": None},
        }
        begun = time.perf_counter()
        made = synthesize(list(map(str, paths)), answers=[file], out=folder / "data", settings=settings, pool=pool)
        synthesis_s, peak_mb = time.perf_counter() - begun, _peak_mb()
        begun = time.perf_counter()
        read = sum(1 for split in made.rows for _ in read_states(made.folder, split=split))
        read_s = time.perf_counter() - begun
    rows = sum(made.rows.values())
    assert read == rows, f"{rows} rows were written and {read} read"
    return {
        "tasks": tasks,
        "answers": tasks * count,
        "rows": rows,
        "synthesis_s": round(synthesis_s, 1),
        "peak_mb": round(peak_mb),
        "read_s": round(read_s, 1),
        "peak_mb_after_reading": round(_peak_mb()),
    }


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    for name, value in (("tasks", 320), ("answers", 12), ("histories", 40)):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--pool", default="local:2")
    args = parser.parse_args()
    found = measure(tasks=args.tasks, count=args.answers, histories=args.histories, pool=args.pool)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
