"""Makes `data/*.jsonl.gz`: rollouts of real trainings of a tiny language model, one sound, one that settled on a
third of the reward, one that its first update broke.

    python -m tests.diagnostics.record

Two minutes on two cores. The tests read what it wrote; it is run again when evidence rows change.
"""

from __future__ import annotations

import gzip
import json
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

DATA = Path(__file__).parent / "data"
LEFT_OUT = ("prompt", "wall_s", "cost_usd")
RUNS: dict[str, dict[str, Any]] = {
    "sound": {"lr": 3e-3},
    "stuck": {"lr": 6e-3, "steps": 60, "filter": {"name": "none"}},
    "broken": {"lr": 3e-2},
}


def record(name: str, stage: Any, work: Path) -> None:
    from coevo.runs import Run
    from coevo.training.session import train
    from tests.training.recipes import recipe

    made = recipe(stage, **{"steps": 24, "groups": 4, "group_size": 8, "pool": "local:2", **RUNS[name]})
    train(made, work / name)
    with Run.open(work / name, write=False) as run:
        rows = [{k: v for k, v in row.items() if k not in LEFT_OUT} for row in run.rollouts()]
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (DATA / f"{name}.jsonl.gz").write_bytes(gzip.compress(lines.encode(), 9, mtime=0))
    print(f"{name}: {len(rows)} rollouts")


def main() -> None:
    import torch

    from tests.training.tiny_policy import make_policy, write_task

    torch.set_num_threads(1)
    DATA.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        task = write_task(work / "tasks" / "three", (4, 7, 2))
        stage = SimpleNamespace(policy=make_policy(work / "policy"), task=task)
        for name in sys.argv[1:] or RUNS:
            record(name, stage, work)


if __name__ == "__main__":
    main()
