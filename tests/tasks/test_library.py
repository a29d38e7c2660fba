"""The shipped function and stdio tasks: well formed, and each proved fit to judge by running it."""

import json
import re

import pytest

from coevo.evaluation.check import check_task
from coevo.evaluation.judge import Judge
from coevo.tasks import list_tasks, load_task
from coevo.tasks.types import Kind

TASKS = [task for task in map(load_task, list_tasks()) if task.kind in (Kind.FUNCTION, Kind.STDIO)]
TIMED = ("prime_count", "convolve2d", "top_words")
"""Whose start is timed here, too: five times slower than the reference or more, so that no noise can turn that around."""


def test_there_are_enough_of_every_sort():
    kinds = [task.kind for task in TASKS]
    assert kinds.count(Kind.FUNCTION) >= 16 and kinds.count(Kind.STDIO) >= 8
    assert {task.config.checker.name for task in TASKS} == {"exact", "tokens", "floats", "unordered", "custom"}
    assert sum(len(task.start.files) > 1 for task in TASKS) >= 2
    assert {str(task.config.preload) for task in TASKS} >= {"stdlib", "numpy"}


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_folders_are_complete(task):
    config = task.config
    assert task.name == task.folder.name and config.title and config.tags
    assert task.reference is not None and config.timing is not None
    assert config.tests["public"].sizes != config.tests["hidden"].sizes
    by_hand = [test.split for test in task.written_tests]
    assert by_hand.count("public") >= 2 and by_hand.count("hidden") >= 1
    assert len({test.name for test in task.written_tests}) == len(by_hand)
    if task.kind is Kind.FUNCTION:
        assert f"`{config.entry}(" in config.statement
    else:
        assert "standard input" in config.statement and "rint" in config.statement
    # Every bound on the input that the statement makes is a number: no "large", "small", "reasonable".
    assert re.search(r"\d", config.statement)


@pytest.mark.parametrize("task", TASKS, ids=lambda task: task.name)
def test_tasks_pass_their_checks(task):
    results = check_task(task, timing=False)
    assert [f"{result.name}: {result.detail}" for result in results if not result.ok] == []


@pytest.mark.parametrize("name", TIMED)
def test_starts_leave_room_for_speed(name):
    task = load_task(name)
    with Judge(task) as judge:
        evaluation = judge.evaluate(task.start, split="public", seed=1)
    assert evaluation.correctness == 1 and evaluation.speedup is not None and evaluation.speedup < 0.7
    assert evaluation.fitness is not None and 0.7 < evaluation.fitness < 0.85


def test_test_lines_are_plain_json():
    for task in TASKS:
        for line in (task.folder / "tests.jsonl").read_text(encoding="utf-8").splitlines():
            assert json.loads(line)["split"] in ("public", "hidden")
