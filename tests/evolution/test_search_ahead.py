"""Model steps decided ahead: operators go on while a model answers, and the run is still a function of its seed."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coevo.config import parse
from coevo.errors import ConfigError
from coevo.evaluation.pool import InlinePool
from coevo.evolution.result import Progress, Stop
from coevo.evolution.schedule import asks_model, early_block
from coevo.evolution.settings import SearchConfig
from coevo.models.ensemble import Ensemble
from coevo.models.scripted import Scripted, ScriptedModel
from coevo.models.spec import ModelSpec
from coevo.models.types import Request
from coevo.runs import Budget, Run
from coevo.tasks.types import Task
from tests.evolution.problems import REPLIES, judges, line_task, pool_of
from tests.evolution.test_search import candidates, digest, run_search

EARLY = {"schedule": "steady", "batch": 4, "model_share": 0.4, "ahead": 12, "steps": 60}
MODEL = {"rewrite", "diff", "crossover"}


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Task:
    return line_task(tmp_path_factory.mktemp("ahead") / "line")


@pytest.fixture(scope="module")
def pool(task: Task):
    with InlinePool(judges(task)) as pool:
        yield pool


@given(st.integers(1, 60), st.integers(0, 5))
def test_every_step_a_model_may_take_lies_in_exactly_one_block_before_it(ahead: int, seed: int) -> None:
    decided = {}
    for commits in range(1, 300):
        for step in early_block(commits, ahead):
            assert step not in decided
            assert commits <= step < commits + ahead
            decided[step] = commits
    for step in range(1, 300):
        if asks_model(step, seed, 1.0, ahead):
            assert step in decided


def test_without_ahead_there_are_no_blocks() -> None:
    assert not any(early_block(commits, 0) for commits in range(20))
    assert all(asks_model(step, 3, 1.0, 0) and not asks_model(step, 3, 0.0, 0) for step in range(1, 20))


def test_workers_do_not_change_it_and_ahead_does(tmp_path: Path, task: Task) -> None:
    found = {}
    for workers in (0, 1, 8):
        with pool_of(task, workers) as pool:
            run_search(tmp_path / f"{workers}", task, pool, **EARLY)
            found[workers] = digest(tmp_path / f"{workers}")
    assert len(set(found.values())) == 1
    with pool_of(task, 0) as pool:
        run_search(tmp_path / "plain", task, pool, **(EARLY | {"ahead": 0}))
    assert digest(tmp_path / "plain") != found[0]


def test_model_steps_are_decided_early_and_have_their_share(tmp_path: Path, task: Task, pool) -> None:
    run_search(tmp_path / "r", task, pool, **(EARLY | {"steps": 200}))
    rows = candidates(tmp_path / "r")[1:]
    model = [row for row in rows if row["decision"]["edit"] in MODEL]
    assert 0.25 < len(model) / len(rows) < 0.55
    assert all(row["step"] > 6 and row["step"] - row["decision"]["at"] >= 6 for row in model)
    others = [row for row in rows if row["decision"]["edit"] not in MODEL]
    assert all(row["step"] - row["decision"]["at"] < 4 for row in others)


def test_operators_go_on_while_the_model_answers(tmp_path: Path, task: Task, pool) -> None:
    five, came = threading.Event(), []

    def slow(request: Request) -> Scripted:
        came.append(five.wait(60))
        return Scripted(text=REPLIES[0] if isinstance(REPLIES[0], str) else "")

    def watch(progress: Progress) -> None:
        if progress.commits >= 5:
            five.set()

    run_search(tmp_path / "r", task, pool, script=slow, observer=watch, **(EARLY | {"ahead": 20, "steps": 30}))
    # The first block (steps 11 to 30) is asked for after one commit; ten operators' steps lie before it.
    assert came and all(came)


def test_a_small_budget_is_spent_to_the_end_and_not_past_it(tmp_path: Path, task: Task, pool) -> None:
    for evaluations in (3, 9, 14, 31):
        folder = tmp_path / f"{evaluations}"
        result = run_search(
            folder, task, pool, budget=Budget(evaluations=evaluations), **(EARLY | {"steps": None, "ahead": 20})
        )
        assert result.stop is Stop.BUDGET and result.spent["evaluations"] == evaluations


def test_a_token_budget_is_not_overspent(tmp_path: Path, task: Task, pool) -> None:
    model = ScriptedModel(REPLIES, spec=ModelSpec(kind="scripted", max_tokens=500), name="scripted")
    result = run_search(
        tmp_path / "r",
        task,
        pool,
        models=Ensemble([model], [1.0]),
        budget=Budget(tokens=8000, evaluations=200),
        **(EARLY | {"steps": None}),
    )
    assert result.stop is Stop.BUDGET and 0 < result.spent["tokens"] <= 8000


def test_stopping_leaves_what_lies_ahead_and_a_resume_takes_it_up(tmp_path: Path, task: Task, pool) -> None:
    folder = tmp_path / "stopped"

    def stopper(progress: Progress) -> None:
        if progress.commits == 20:
            (folder / "stop").touch()

    result = run_search(folder, task, pool, observer=stopper, **EARLY)
    assert result.stop is Stop.INTERRUPTED and result.steps < 61
    with Run.open(folder, write=False) as run:
        assert not any(run.ledger.held().values())
    assert run_search(folder, task, pool, **EARLY).stop is Stop.STEPS
    run_search(tmp_path / "whole", task, pool, **EARLY)
    assert digest(folder) == digest(tmp_path / "whole")


def test_minutes_do_not_wait_for_a_slow_model(
    tmp_path: Path, task: Task, pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coevo.evolution.search.GRACE_S", 0.3)
    over, answered = threading.Event(), []

    def until_over(request: Request) -> str:
        over.wait(120)
        answered.append(request.key)
        return ""

    try:
        result = run_search(
            tmp_path / "r",
            task,
            pool,
            script=until_over,
            budget=Budget(minutes=0.01),
            steps=None,
            proposers={"rewrite": 1},
            verify=True,
        )
        assert not answered
    finally:
        over.set()
    assert result.stop is Stop.BUDGET and "minutes" in result.message
    assert result.verified is not None


def test_ahead_needs_a_share() -> None:
    with pytest.raises(ConfigError, match="ahead = 10 needs model_share"):
        parse(SearchConfig, {"ahead": 10}, where="search settings")
