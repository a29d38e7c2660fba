"""Strategies at equal budget, beside the task's own optimiser."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from coevo.errors import ConfigError
from coevo.evaluation.pool import InlinePool
from coevo.evolution.compare import BASELINE, compare
from coevo.evolution.settings import SearchConfig
from coevo.models.ensemble import Ensemble
from coevo.models.scripted import ScriptedModel
from coevo.models.types import Request
from coevo.runs import Budget
from coevo.streams import stream
from coevo.tasks.types import Task
from tests.evolution.problems import judges, line_task, program


@pytest.fixture
def task(tmp_path: Path) -> Task:
    return line_task(tmp_path / "line")


def reply(request: Request) -> str:
    rng = stream(request.seed, "reply")
    return program(round(rng.uniform(0, 4), 3), round(rng.uniform(-3, 3), 3))


def test_arms_get_equal_budgets_and_a_table_of_medians(tmp_path: Path, task: Task) -> None:
    calls: list[int] = []

    def counted(request: Request) -> str:
        calls.append(1)
        return reply(request)

    budget = Budget(evaluations=12)
    models = Ensemble([ScriptedModel(counted)], [1.0])
    with InlinePool(judges(task)) as pool:
        found = compare(
            task,
            strategies=["evolve", "independent", "hill_climb"],
            budget=budget,
            seeds=[0, 1, 2],
            pool=pool,
            folder=tmp_path / "runs",
            config=SearchConfig(batch=4, islands=2, population=20),
            models=models,
        )
        assert [row.arm for row in found.rows] == ["evolve", "independent", "hill_climb", BASELINE]
        assert all(row.trials == row.measured == 3 for row in found.rows)
        assert all(row.evaluations == 12 for row in found.rows[:3])
        assert len(found.trials) == 12 and len({t.run for t in found.trials if t.run}) == 9
        for row in found.rows:
            values = sorted(t.fitness for t in found.trials if t.arm == row.arm and t.fitness is not None)
            assert (
                row.fitness is not None
                and row.fitness[1] == values[1]
                and row.fitness[0] <= row.fitness[1] <= row.fitness[2]
            )
        by_arm = {t.arm: t for t in found.trials if t.seed == 0}
        assert by_arm[BASELINE].score == pytest.approx(9.5)
        assert by_arm["evolve"].cpu_s > 0 and by_arm["independent"].tokens > 0
        assert json.loads(json.dumps(found.to_dict()))["task"] == "line"
        asked = len(calls)
        again = compare(
            task,
            strategies=["evolve", "independent", "hill_climb"],
            budget=budget,
            seeds=[0, 1, 2],
            pool=pool,
            folder=tmp_path / "runs",
            config=SearchConfig(batch=4, islands=2, population=20),
            models=models,
        )
    assert len(calls) == asked
    assert [r.fitness for r in again.rows] == [r.fitness for r in found.rows]


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"budget": Budget()}, "needs a budget"),
        ({"budget": Budget(minutes=1)}, "do not bound work"),
        ({"seeds": [1, 1]}, "different strategies and seeds"),
        ({"strategies": []}, "different strategies and seeds"),
    ],
)
def test_unequal_comparisons_are_refused(tmp_path: Path, task: Task, more: dict, message: str) -> None:
    arguments = {"strategies": ["evolve"], "budget": Budget(evaluations=3), "seeds": [0], **more}
    with InlinePool(judges(task)) as pool, pytest.raises(ConfigError, match=message):
        compare(task, pool=pool, folder=tmp_path / "runs", **arguments)
