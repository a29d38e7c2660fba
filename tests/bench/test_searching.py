"""Many searches at once, and what is kept of each."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from coevo.bench.searching import Fleet, Job
from coevo.bench.suites import tasks_of
from coevo.errors import ModelError, TaskError
from coevo.evaluation.judges import open_judges
from coevo.evolution.session import Setup
from coevo.evolution.settings import SearchConfig
from coevo.models.scripted import Scripted, ScriptedModel
from coevo.models.spec import parse_spec
from coevo.models.types import Request
from coevo.runs import Budget, Run
from coevo.tasks.types import Task
from tests.bench.test_suites import put

RIGHT = "```python\ndef f(x):\n    return x + 1\n```"
HALF = "```python\ndef f(x):\n    return 2\n```"
SAME = "```python\ndef f(x):\n    return x\n```"
WRONG = "```python\ndef f(x):\n    return x - 1\n```"


def jobs(tasks: list[Task], **changes: object) -> list[Job]:
    settings = SearchConfig.model_validate(
        {"islands": 1, "batch": 2, "proposers": {"rewrite": 1.0}, "bandit": False, "stall": None, **changes}
    )
    return [Job("search", 0, "test", task, settings, Budget(evaluations=4, proposals=6)) for task in tasks]


def script(*texts: str | Scripted) -> ScriptedModel:
    return ScriptedModel(texts, spec=parse_spec("scripted:x,order=number"))


def test_a_record_says_what_the_search_did(tmp_path: Path) -> None:
    task = tasks_of([put(tmp_path, "a")])
    model = script(SAME, HALF, "no code here", HALF, RIGHT, RIGHT, WRONG)  # step-1 is the second line.
    with open_judges("inline", task) as pool:
        record = Fleet(pool, tmp_path / "runs", keep=True).run(jobs(task), model)[0]
    assert (record.start, record.best, record.hidden_start, record.hidden_best) == (0.0, 1.0, 0.0, 1.0)
    assert record.hidden_right and record.gain == 1.0 and record.stop == "budget"
    assert [step.round for step in record.steps] == [1, 1, 2, 2, 3, 3][: len(record.steps)]
    first, second, third = record.steps[:3]
    assert (
        first.fitness == 0.5 and first.parent_fitness == 0.0 and first.distance is not None and first.evaluations == 2
    )
    assert second.rejection == "no_code" and second.program == "" and second.fitness is None and second.evaluations == 2
    assert third.duplicate and (third.copy or third.program == first.program)
    assert record.steps[-1].evaluations == record.evaluations <= 4
    with Run.open(tmp_path / "runs" / record.run, write=False) as run:
        assert Setup.read(run).load().name == "a" and run.digest(kinds=("candidate",)) == record.digest


def test_a_search_in_which_nothing_ever_ran_is_worth_nothing_rather_than_unknown(tmp_path: Path) -> None:
    folder = Path(put(tmp_path, "a"))
    (folder / "program.py").write_text("def f(x):\n    raise NotImplementedError\n")
    tasks = tasks_of([str(folder)])
    with open_judges("inline", tasks) as pool:
        record = Fleet(pool, tmp_path / "runs").run(jobs(tasks), script("```python\ny = 1\n```"))[0]
    assert record.best is None and record.hidden_best == record.hidden_start == 0.0 and record.hidden_right is False


def test_records_come_in_the_order_of_the_jobs_and_folders_go(tmp_path: Path) -> None:
    tasks = tasks_of([put(tmp_path, name) for name in "abcdef"])
    told: list[str] = []
    with open_judges("inline", tasks) as pool:
        fleet = Fleet(pool, tmp_path / "runs", parallel=3)
        found = fleet.run(jobs(tasks), script(RIGHT), notify=lambda record: told.append(record.task))
    assert [record.task for record in found] == list("abcdef") == sorted(told)
    assert not list((tmp_path / "runs").rglob("run.db"))


def test_one_broken_task_ends_all_with_its_error(tmp_path: Path) -> None:
    tasks = tasks_of([put(tmp_path, name) for name in "abcd"])
    (tmp_path / "c" / "tests.jsonl").write_text("not a test\n")
    with open_judges("inline", tasks) as pool, pytest.raises(TaskError, match=r"tests\.jsonl"):
        Fleet(pool, tmp_path / "runs", parallel=4).run(jobs(tasks), script(RIGHT))


def test_cancelling_ends_searches_that_wait_for_a_batch(tmp_path: Path) -> None:
    tasks = tasks_of([put(tmp_path, name) for name in "ab"])
    cancelled, asked = threading.Event(), threading.Event()

    def reply(request: Request) -> str:
        asked.set()
        cancelled.wait(20)
        return RIGHT

    model = ScriptedModel(reply, spec=parse_spec("scripted:x,batch=8"))
    with open_judges("inline", tasks) as pool:
        threading.Thread(target=lambda: (asked.wait(20), cancelled.set())).start()
        with pytest.raises(KeyboardInterrupt):
            Fleet(pool, tmp_path / "runs", cancelled=cancelled).run(jobs(tasks), model)
    assert cancelled.is_set()


def test_replies_that_never_came_are_an_error_not_a_bad_result(tmp_path: Path) -> None:
    tasks = tasks_of([put(tmp_path, "a")])
    down = script(Scripted(error="overloaded"))
    with (
        open_judges("inline", tasks) as pool,
        pytest.raises(ModelError, match="6 of 6 requests got no reply: overloaded"),
    ):
        Fleet(pool, tmp_path / "runs").run(jobs(tasks), down)


def test_a_billable_model_is_not_asked_again_for_what_was_paid(tmp_path: Path) -> None:
    tasks = tasks_of([put(tmp_path, "a")])
    asked: list[str] = []

    class Paid(ScriptedModel):
        billable = True

    def reply(request: Request) -> str:
        asked.append(request.key)
        if len(asked) == 3 and not again:
            raise ModelError("the line went dead")
        return [HALF, WRONG, RIGHT][len(asked) % 3]

    again: list[bool] = []
    with open_judges("inline", tasks) as pool:
        fleet = Fleet(pool, tmp_path / "runs", keep=True)
        with pytest.raises(ModelError):
            fleet.run(jobs(tasks, model_failures=1), Paid(reply))
        before = list(asked)
        again.append(True)
        record = fleet.run(jobs(tasks, model_failures=1), Paid(reply))[0]
    assert record.hidden_best is not None
    kept = set(before[:2]) & set(asked[len(before) :])
    assert not kept, f"asked twice: {kept}"
