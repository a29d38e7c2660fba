"""The end of a search: hidden tests, a fresh seed, and leaders measured again where fitness is timed."""

from __future__ import annotations

from pathlib import Path

import pytest

from coevo.evaluation.pool import InlinePool
from coevo.evolution.result import SearchResult, Verified
from coevo.evolution.search import search
from coevo.evolution.settings import SearchConfig
from coevo.evolution.verify import verification_seed
from coevo.models.ensemble import Ensemble
from coevo.models.scripted import Scripted, ScriptedModel
from coevo.models.spec import ModelSpec
from coevo.runs import Run
from coevo.tasks.types import Task
from tests.evolution.problems import judges, line_task, program, slow, timed_task


@pytest.fixture(scope="module")
def timed(tmp_path_factory: pytest.TempPathFactory) -> Task:
    return timed_task(tmp_path_factory.mktemp("timed") / "total")


def run_timed(folder: Path, task: Task, top: int) -> SearchResult:
    script = [Scripted(f"```python\n{slow(loops)}```", key=f"step-{i}") for i, loops in enumerate((6, 2, 9), 1)]
    models = Ensemble([ScriptedModel(script, spec=ModelSpec(kind="scripted"))], [1.0])
    config = SearchConfig(strategy="independent", proposers={"rewrite": 1}, steps=3, verify_top=top)
    with InlinePool(judges(task)) as pool, Run.create(folder, kind="evolve", config={}) as run:
        return search(task, run, pool=pool, config=config, models=models)


@pytest.mark.parametrize("top", [1, 3])
def test_timed_leaders_are_measured_again_before_the_best_is_named(tmp_path: Path, timed: Task, top: int) -> None:
    result = run_timed(tmp_path / "r", timed, top)
    found = result.verified
    assert found is not None and len(found.remeasured) == top
    assert found.program == max(found.remeasured, key=lambda name: found.remeasured[name])
    assert result.best_program is not None and "range(2)" in result.best_program.source
    assert found.gain is not None and found.gain > 0.02
    assert found.search.efficiency is not None and found.best_hidden.efficiency is not None


def test_verification_uses_hidden_tests_and_a_seed_of_its_own(tmp_path: Path) -> None:
    task = line_task(tmp_path / "line")
    config = SearchConfig(steps=4, proposers={"rewrite": 1})
    models = Ensemble([ScriptedModel([program(2.0, 0.5)])], [1.0])
    with InlinePool(judges(task)) as pool, Run.create(tmp_path / "r", kind="evolve", config={}) as run:
        result = search(task, run, pool=pool, config=config, models=models)
        stored = list(run.evaluations())
        assert run.ledger.spent()["evaluations"] == 2
    assert result.verified is not None and result.best is not None
    hidden = [(name, seed) for name, split, seed, _ in stored if split == "hidden"]
    assert set(hidden) == {
        (result.verified.program, result.verified.seed),
        (result.verified.start, result.verified.seed),
    }
    assert (
        result.verified.seed == verification_seed(0) not in {seed for _, split, seed, _ in stored if split == "public"}
    )
    # Ten minus the mean distance of 2 x + 0.5 and of x + 2 from 3 x - 1, at 5 and 7.
    assert result.verified.best_hidden.score == pytest.approx(10 - 4.5)
    assert result.verified.start_hidden.score == pytest.approx(10 - 9.0)
    assert result.verified.gain == pytest.approx(4.5)
    assert Verified.from_dict(result.verified.to_dict()) == result.verified
