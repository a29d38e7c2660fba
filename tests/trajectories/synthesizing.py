"""A synthesis in a process of its own, to be killed."""

from __future__ import annotations

from pathlib import Path

from coevo.runs import Budget
from coevo.trajectories.synth import Setup, begin, resume
from tests.trajectories.world import config


def run(tasks: list[str], model: str, search: str, folder: str, workers: int) -> None:
    """Begin or resume the synthesis in `folder` and bring it to its end."""
    path, pool = Path(folder), f"local:{workers}" if workers else "inline"
    if (path / "run.db").exists():
        with resume(path, pool=pool) as synthesis:
            synthesis.go()
        return
    settings = config(
        seed=5, ask={"write": 1.0, "rewrite": 1.0}, splits={"validation": 0.4}, arrange={"histories": 2}, group_rows=8
    )
    setup = Setup.of(tasks, models=(model,), runs=(search,), settings=settings, pool=pool)
    with begin(setup, Budget(evaluations=500, tokens=10**6), path) as synthesis:
        synthesis.go()
