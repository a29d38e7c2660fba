"""Executions a second and latency of every rung, against a bare fork, `python -I`, and bubblewrap + python.

    python benchmarks/bench_sandbox.py [--rounds 12] [--json FILE]

All methods run the same work in one process, in interleaved rounds: define a function, call it five times, return the
five values. Rates are of two workers, latencies of one. The bare fork is the same worker with every wall left out:
what walls cost is the difference. Goals: the namespaces rung makes at least 6 times the executions of
`python -I`, and its median is within 1.5 times the bare fork's.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from coevo.sandbox import Call, Execution, Job, Level, Limits, Preload
from coevo.sandbox.pool import LocalSandbox, Worker, pack
from coevo.sandbox.report import interpret
from coevo.sandbox.spawn import BARE

SOURCE = "def f(x):\n    return x * x + 1\n"
JOB = Job((("program.py", SOURCE),), "program.py", "f", tuple(Call((i,)) for i in range(5)), limits=Limits(cpu_s=5))
EXPECTED = [i * i + 1 for i in range(5)]
SCRIPT = SOURCE + "import json\nprint(json.dumps([f(i) for i in range(5)]))\n"
WORKERS = 2

Run = Callable[[int], None]
"""Do the work once, on worker 0 or 1. Raises if the answer is wrong."""


def _check(execution: Execution) -> None:
    if [call.value for call in execution.calls] != EXPECTED:
        raise RuntimeError(f"a wrong answer: {execution}")


def _worker(level: Level | str, preload: Preload) -> Run:
    workers = [Worker(level, preload) for _ in range(WORKERS)]

    def run(number: int) -> None:
        _check(interpret(JOB, workers[number].run(*pack(JOB), JOB.limits.wall)))

    return run


def _sandbox(level: Level, preload: Preload = Preload.STDLIB) -> Run:
    sandbox = LocalSandbox(level, preload=preload, workers=WORKERS)
    job = Job(JOB.files, JOB.main, JOB.entry, JOB.calls, preload=preload, limits=JOB.limits)
    return lambda number: _check(sandbox.run(job))


def _process(*command: str) -> Run:
    def run(number: int) -> None:
        done = subprocess.run(command, input=SCRIPT.encode(), capture_output=True, check=True)
        if json.loads(done.stdout) != EXPECTED:
            raise RuntimeError(f"a wrong answer: {done.stdout!r}")

    return run


def methods() -> dict[str, Run]:
    """What is compared, by name. Rungs that this machine lacks raise."""
    python = os.path.realpath(sys.executable)
    found: dict[str, Run] = {
        "bare fork": _worker(BARE, Preload.STDLIB),
        "namespaces": _sandbox(Level.NAMESPACES),
        "landlock": _sandbox(Level.LANDLOCK),
        "rlimits": _sandbox(Level.RLIMITS),
        "bare fork, numpy": _worker(BARE, Preload.NUMPY),
        "namespaces, numpy": _sandbox(Level.NAMESPACES, Preload.NUMPY),
        "namespaces, numpy+scipy": _sandbox(Level.NAMESPACES, Preload.NUMPY_SCIPY),
        "python -I": _process(python, "-I", "-"),
    }
    if shutil.which("bwrap"):
        found["bubblewrap"] = _sandbox(Level.BUBBLEWRAP)
        wrap = (
            "bwrap",
            "--unshare-all",
            "--die-with-parent",
            "--ro-bind",
            "/",
            "/",
            "--tmpfs",
            "/tmp",
            "--dev",
            "/dev",
        )
        found["bwrap + python -I"] = _process(*wrap, python, "-I", "-")
    return found


def measure(runs: dict[str, Run], rounds: int, seconds: float) -> dict[str, dict[str, float]]:
    """Interleaved rounds: in each, every method runs for about `seconds` on one worker, then on all of them."""
    latencies: dict[str, list[float]] = {name: [] for name in runs}
    rates: dict[str, list[float]] = {name: [] for name in runs}
    with ThreadPoolExecutor(WORKERS) as threads:
        for run in runs.values():
            list(threads.map(run, range(WORKERS)))
        for _ in range(rounds):
            for name, run in runs.items():
                latencies[name] += _spell(run, 0, seconds)
                counts = list(threads.map(lambda number, run=run: len(_spell(run, number, seconds)), range(WORKERS)))
                rates[name].append(sum(counts) / seconds)
    return {
        name: {
            "p50_ms": statistics.median(latencies[name]) * 1e3,
            "p99_ms": sorted(latencies[name])[int(len(latencies[name]) * 0.99)] * 1e3,
            "per_s": statistics.median(rates[name]),
        }
        for name in runs
    }


def _spell(run: Run, number: int, seconds: float) -> list[float]:
    times: list[float] = []
    end = time.perf_counter() + seconds
    while (begun := time.perf_counter()) < end:
        run(number)
        times.append(time.perf_counter() - begun)
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--seconds", type=float, default=0.15, help="of each method in each round, twice")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    options = parser.parse_args()
    figures = measure(methods(), options.rounds, options.seconds)
    bare, plain = figures["bare fork"], figures["python -I"]
    print(f"{'method':26}{'p50 ms':>9}{'p99 ms':>9}{'per s':>9}{'x python -I':>13}{'p50 / bare':>12}")
    for name, row in figures.items():
        print(
            f"{name:26}{row['p50_ms']:9.2f}{row['p99_ms']:9.2f}{row['per_s']:9.0f}"
            f"{row['per_s'] / plain['per_s']:13.1f}{row['p50_ms'] / bare['p50_ms']:12.2f}"
        )
    rung = figures["namespaces"]
    result = {
        "figures": figures,
        "rate_over_python": rung["per_s"] / plain["per_s"],
        "p50_over_bare_fork": rung["p50_ms"] / bare["p50_ms"],
        "load": os.getloadavg()[0],
    }
    print(json.dumps({key: value for key, value in result.items() if key != "figures"}))
    if options.json:
        options.json.write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
