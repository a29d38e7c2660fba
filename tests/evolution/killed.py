"""A search in a process of its own, to be killed."""

from __future__ import annotations

from pathlib import Path

from coevo.evolution.search import search
from coevo.evolution.settings import SearchConfig
from coevo.models.ensemble import Ensemble
from coevo.models.scripted import ScriptedModel
from coevo.models.spec import ModelSpec
from coevo.runs import Budget, Run
from coevo.tasks import load_task
from tests.evolution.problems import REPLIES, pool_of

BUDGET = Budget(evaluations=60, tokens=100_000)


def run(task_folder: str, folder: str, workers: int, schedule: str) -> None:
    """Begin or resume the search in `folder` and bring it to its end."""
    task = load_task(task_folder)
    early = {"schedule": "steady", "model_share": 0.4, "ahead": 10} if schedule == "early" else {"schedule": schedule}
    config = SearchConfig.model_validate({"batch": 6, "islands": 2, "population": 20, "migrate_every": 2, **early})
    model = ScriptedModel(REPLIES, spec=ModelSpec(kind="scripted", max_tokens=500, batch=3))
    path = Path(folder)
    if (path / "run.db").exists():
        held = Run.open(path, write=True)
    else:
        held = Run.create(path, kind="evolve", config=config.model_dump(), budget=BUDGET)
    with held, pool_of(task, workers) as pool:
        search(task, held, pool=pool, config=config, models=Ensemble([model], [1.0]))
