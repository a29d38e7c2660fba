"""The CPU-scale study: does training on evolution make a policy evolve better, on puzzles it has never seen?

    python benchmarks/bench_meta.py            all arms, 3 seeds; writes docs/results/meta (make bench-meta)
    python benchmarks/bench_meta.py --quick    a small version, to see that everything runs; writes nothing there

It is `coevo bench meta --results docs/results/meta`: killed or stopped, the same command goes on. What is measured and how is in docs/bench.md.
Run it on a quiet machine: the results do not depend on that (nothing here is timed), but how long it takes does.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def main(arguments: list[str]) -> int:
    command = [sys.executable, "-m", "coevo.cli.main", "bench", "meta", *arguments]
    if "--quick" not in arguments and "--results" not in arguments:
        command += ["--results", str(ROOT / "docs" / "results" / "meta")]
    return subprocess.run(command, cwd=ROOT).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
