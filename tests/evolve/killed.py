"""A search in a process of its own, to be killed: python -m tests.evolve.killed TASK RUN WORKERS SCHEDULE."""

from __future__ import annotations

import sys
from pathlib import Path

from coevo.evolve.search import search
from coevo.evolve.settings import SearchConfig
from coevo.models.ensemble import Ensemble
from coevo.models.scripted import ScriptedModel
from coevo.models.spec import ModelSpec
from coevo.runs import Budget, Run
from coevo.tasks import load_task
from tests.evolve.problems import REPLIES, pool_of

BUDGET = Budget(evaluations=60, tokens=100_000)


def main(task_folder: str, folder: str, workers: int, schedule: str) -> None:
    task = load_task(task_folder)
    config = SearchConfig(schedule=schedule, batch=6, islands=2, population=20, migrate_every=2)  # type: ignore[arg-type]
    model = ScriptedModel(REPLIES, spec=ModelSpec(kind="scripted", max_tokens=500, batch=3))
    path = Path(folder)
    if (path / "run.db").exists():
        run = Run.open(path, write=True)
    else:
        run = Run.create(path, kind="evolve", config=config.model_dump(), budget=BUDGET)
    with run, pool_of(task, workers) as pool:
        search(task, run, pool=pool, config=config, models=Ensemble([model], [1.0]))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4])
