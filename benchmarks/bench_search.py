"""How fast the search is, and what its driver costs. `make bench-search`, or python benchmarks/bench_search.py --help.

1. Throughput: an instant scripted model and an instant task, everything else real: parsing, the judge, the sandbox with
   all its walls, the store. Candidates per second with 2 workers.
2. Driver: CPU and memory of the driving process while the archive grows to 100,000 members of 5 KB each. Here the workers
   skip parsing and the sandbox and return made-up children and evaluations (over the real pool), since only the driver is measured.

3. Other systems, with an instant model behind HTTP, an instant evaluator and no sandbox, in the environment that `make peers` makes;
   without it, what was measured earlier is quoted.

CPU is `time.process_time` of the driving process, all threads: the search itself, the pool's dispatcher, and here the scripted
model, too; in part 1 the thread of the search is also given alone.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from typing import Any

from made_up import made_up_child, made_up_evaluation

from coevo.evaluation.judge import Judge
from coevo.evaluation.pool import LocalPool
from coevo.evolution.result import Progress
from coevo.evolution.search import search
from coevo.evolution.settings import SearchConfig
from coevo.evolution.worker import propose
from coevo.models.ensemble import Ensemble
from coevo.models.scripted import ScriptedModel
from coevo.models.spec import ModelSpec
from coevo.models.types import Request
from coevo.runs import Run
from coevo.tasks import load_task
from coevo.tasks.types import Task

PEERS = {"peers_openevolve.py": (1000, 100), "peers_shinka.py": (60, 10)}
"""Script, and how many candidates it makes in all and before the clock starts."""

QUOTED = """\
quoted, measured 2026-08 on 2 cores with an instant model and an instant evaluator, no sandbox at all:
  OpenEvolve 0.4.1     97-111 candidates/s at first, 24/s at 1,000 programs of 5 KB; 23 ms a candidate, growing; +94 MB per 1,000
  ShinkaEvolve 0.0.7   6.8/s (bare child process), 0.25/s (its own evaluation wrapper); about 15 MB per 1,000
  GEPA 0.1.4           6,400/s in process, 77/s once a run directory is set"""

TASK = {
    "task.yaml": """\
name: number
kind: open
entry: solve
statement: Return a large number.
instances: {public: [{}]}
limits: {cpu_s: 2, memory_mb: 64}
""",
    "program.py": "A = 1.5\nB = 2.5\n\n\ndef solve():\n    return A + B\n",
    "score.py": "def score(output, instance):\n    return min(1e6, float(output))\n",
}


def number_task(folder: Path) -> Task:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in TASK.items():
        (folder / name).write_text(text)
    return load_task(folder)


def reply(request: Request) -> str:
    """A new program for every request, by its key."""
    rng = random.Random(request.key)
    return f"```python\nA = {rng.random()!r}\nB = {rng.random()!r}\n\n\ndef solve():\n    return A + B\n```"


def model() -> Ensemble:
    return Ensemble([ScriptedModel(reply, spec=ModelSpec(kind="scripted", batch=16))], [1.0])


class Watch:
    """Wall, CPU and memory of this process at given numbers of commits."""

    def __init__(self, marks: list[int]) -> None:
        self.marks = marks
        self.rows: list[tuple[int, float, float, float, float]] = []

    def __call__(self, progress: Progress) -> None:
        if progress.commits in self.marks:
            self.rows.append(
                (progress.commits, time.perf_counter(), time.process_time(), resident_mb(), time.thread_time())
            )


def resident_mb() -> float:
    """Resident memory now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1e6


def throughput(folder: Path, proposers: dict[str, float], steps: int, workers: int) -> dict[str, Any]:
    """Candidates per second, everything real, after a warm-up of 200."""
    task = number_task(folder / "task")
    config = SearchConfig(proposers=proposers, steps=steps, schedule="steady", batch=32, stall=None, verify=False)  # type: ignore[arg-type]
    watch = Watch([200, steps + 1])
    name = "+".join(proposers)
    with Run.create(folder / name, kind="evolve", config={}) as run, LocalPool(workers, partial(Judge, task)) as pool:
        result = search(task, run, pool=pool, config=config, models=model(), observer=watch)
    (first, wall, cpu, _, own), (last, wall_end, cpu_end, _, own_end) = watch.rows
    return {
        "proposers": name,
        "candidates_per_s": round((last - first) / (wall_end - wall), 1),
        "driver_cpu_ms": round(1000 * (cpu_end - cpu) / (last - first), 3),
        "of_it_main_thread_ms": round(1000 * (own_end - own) / (last - first), 3),
        "evaluated": result.evaluated,
        "steps": result.steps,
    }


class MadeUpPool(LocalPool):
    """The real pool, whose workers skip parsing, judging and the sandbox."""

    def submit(self, fn: Any, *args: Any, deadline_s: float | None = None) -> Future[Any]:
        return super().submit(made_up_child if fn is propose else made_up_evaluation, *args, deadline_s=deadline_s)


def driver(folder: Path, selection: str, marks: list[int], workers: int) -> list[dict[str, Any]]:
    """CPU per candidate and memory per 1,000 in windows of 1,000 candidates that end at each of `marks`."""
    task = number_task(folder / "task")
    ends = sorted({edge for mark in marks for edge in (mark - min(1000, mark // 2), mark)})
    watch = Watch(ends)
    config = SearchConfig(
        steps=marks[-1],
        schedule="steady",
        batch=32,
        population=1_000_000,
        selection={"name": selection},  # type: ignore[arg-type]
        proposers={"mutate": 1, "splice": 1, "tune": 1},
        stall=None,
        verify=False,
    )
    with Run.create(folder / f"driver-{selection}", kind="evolve", config={}) as run, MadeUpPool(workers, dict) as pool:
        search(task, run, pool=pool, config=config, observer=watch)
    by_commits = {row[0]: row for row in watch.rows}
    rows = []
    floor = by_commits[ends[0]][3]
    for mark in marks:
        begin, end = by_commits[mark - min(1000, mark // 2)], by_commits[mark]
        count = end[0] - begin[0]
        rows.append(
            {
                "selection": selection,
                "held": mark,
                "driver_cpu_ms": round(1000 * (end[2] - begin[2]) / count, 3),
                "candidates_per_s": round(count / (end[1] - begin[1]), 1),
                "mb_per_1000": round(1000 * (end[3] - floor) / max(1, mark - ends[0]), 3),
            }
        )
    return rows


def peers(folder: Path, python: Path) -> list[dict[str, Any]]:
    """What each of the other systems reaches on this machine now; a system that fails says why."""
    rows: list[dict[str, Any]] = []
    for script, (steps, warm) in PEERS.items():
        place = folder / script
        place.mkdir()
        command = [str(python), "-B", str(Path(__file__).with_name(script)), str(place), str(steps), str(warm)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=place)
        except subprocess.TimeoutExpired:
            rows.append({"system": script, "error": "not done after 300 s"})
            continue
        last = done.stdout.strip().rpartition("\n")[2]
        if done.returncode == 0 and last.startswith("{"):
            rows.append(json.loads(last))
        else:
            rows.append({"system": script, "error": (done.stderr or done.stdout).strip()[-300:]})
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=2000, help="candidates per throughput measurement")
    parser.add_argument(
        "--held", type=int, nargs="+", default=[1000, 10_000, 100_000], help="archive sizes to measure the driver at"
    )
    parser.add_argument("--selections", nargs="+", default=["mix"], help="selection strategies for the driver part")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument(
        "--peers",
        type=Path,
        default=Path(__file__).parents[1] / ".venv-peers/bin/python",
        help="Python of an environment with the other systems (made by `make peers`)",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object only")
    args = parser.parse_args()
    found: dict[str, Any] = {"throughput": [], "driver": [], "peers": []}
    with tempfile.TemporaryDirectory(prefix="coevo-bench-") as folder:
        for proposers in ({"rewrite": 1.0}, {"tune": 1.0, "mutate": 1.0, "splice": 1.0}):
            found["throughput"].append(throughput(Path(folder), proposers, args.steps, args.workers))
        for selection in args.selections:
            found["driver"] += driver(Path(folder), selection, args.held, args.workers)
        if args.peers.exists():
            found["peers"] = peers(Path(folder), args.peers)
    if args.json:
        print(json.dumps(found))
        return 0
    print(f"throughput, real sandbox, {args.workers} workers (goal: 200 candidates/s or more)")
    for row in found["throughput"]:
        print("  ", "  ".join(f"{name}: {value}" for name, value in row.items()))
    print("driver, made-up children of 5 KB (goals: 1 ms a candidate or less, constant; 2 MB per 1,000 or less)")
    for row in found["driver"]:
        print("  ", "  ".join(f"{name}: {value}" for name, value in row.items()))
    if found["peers"]:
        print("others, in this run: instant model over HTTP, instant evaluator, no sandbox")
        for row in found["peers"]:
            print("  ", "  ".join(f"{name}: {value}" for name, value in row.items()))
    print(QUOTED)
    return 0


if __name__ == "__main__":
    sys.exit(main())
