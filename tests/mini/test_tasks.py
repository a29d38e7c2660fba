"""Puzzles: what they promise of tests, parts and starts; and their tasks, judged for real."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coevo.errors import ConfigError
from coevo.evaluation.judge import Judge
from coevo.evolution.prompt import TaskView
from coevo.mini.corpus import attempt_of
from coevo.mini.families import EXPRESSIONS, HIDDEN_PER_CASE, PARTS, SEEN, UNSEEN, draw_puzzle, family_named, part_of
from coevo.mini.tasks import mini_tasks, suite_of, write_tasks
from coevo.mini.tokens import view_of
from coevo.streams import stream
from coevo.tasks.loader import load_task, task_digest

FAMILIES = [*SEEN, *UNSEEN]


@given(st.sampled_from(FAMILIES), st.sampled_from(sorted(PARTS)), st.integers(0, 1000))
def test_a_puzzle_is_solvable_from_its_list_and_starts_below_its_solution(name, part, seed):
    puzzle = draw_puzzle(family_named(name), part, stream(seed, "t"))
    assert part_of(puzzle.cases) == part
    assert set(puzzle.cases) <= set(puzzle.listed)
    assert len(set(puzzle.listed)) == len(puzzle.listed)
    assert not set(puzzle.public) & set(puzzle.hidden)
    assert sorted(k for k, _ in puzzle.hidden) == sorted(list(range(len(puzzle.cases))) * HIDDEN_PER_CASE)
    assert attempt_of(puzzle, puzzle.cases).fitness == 1
    wrong = sum(a is not b for a, b in zip(puzzle.start, puzzle.cases, strict=True))
    assert wrong >= len(puzzle.cases) / 2
    assert (attempt_of(puzzle, puzzle.start).fitness or 0) < 1


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_expressions_are_worth_what_their_text_says(text):
    for n in range(1, 10):
        assert EXPRESSIONS[text].at(n) == eval(text, {"abs": abs}, {"n": n})


@pytest.mark.parametrize("name", FAMILIES)
def test_the_real_judge_says_of_a_task_what_the_corpus_says_of_its_puzzle(name, tmp_path):
    part = "test"
    (task,) = mini_tasks([name], part=part, count=1, seed=3, folder=tmp_path)
    puzzle = draw_puzzle(family_named(name), part, stream(3, "mini", "task", name, part, 0))
    assert TaskView.of(task.config) == view_of(puzzle.statement)
    assert task.written_tests == suite_of(puzzle)
    with Judge(task) as judge:
        found = judge.evaluate(task.start, split="public", seed=0)
        said = attempt_of(puzzle, puzzle.start)
        assert (found.fitness, found.correctness, found.feedback) == (said.fitness, said.correctness, said.feedback)
        assert task.reference is not None
        assert judge.evaluate(task.reference, split="public", seed=0).fitness == 1
        assert judge.evaluate(task.reference, split="hidden", seed=0).fitness == 1
        assert (judge.evaluate(task.start, split="hidden", seed=0).fitness or 0) < 1


def test_no_program_of_a_training_task_solves_a_task_of_another_part(tmp_path):
    solutions = {
        part: {str(task.reference) for task in mini_tasks(["chain4"], part=part, count=40, folder=tmp_path)}
        for part in PARTS
    }
    assert not solutions["train"] & solutions["test"]
    assert not solutions["train"] & solutions["validation"]
    assert not solutions["validation"] & solutions["test"]


def test_tasks_are_taken_from_the_families_in_turn_and_written_once(tmp_path):
    paths = write_tasks(["chain4", "chain5"], part="train", count=4, folder=tmp_path)
    assert [path.name for path in paths] == [
        "mini-chain4-train-0-0",
        "mini-chain5-train-0-0",
        "mini-chain4-train-0-1",
        "mini-chain5-train-0-1",
    ]
    before = [task_digest(load_task(path)) for path in paths]
    written = [path.stat().st_ino for path in paths]
    assert write_tasks(["chain4", "chain5"], part="train", count=4, folder=tmp_path) == paths
    assert [path.stat().st_ino for path in paths] == written
    assert [task_digest(load_task(path)) for path in paths] == before
    other = write_tasks(["chain4"], part="train", count=1, seed=1, folder=tmp_path)
    assert load_task(other[0]).reference != load_task(paths[0]).reference


def test_what_is_held_out_cannot_be_trained_on(tmp_path):
    with pytest.raises(ConfigError, match=r"dict5.*held out"):
        write_tasks(["chain4", "dict5"], part="train", count=2, folder=tmp_path)
    with pytest.raises(ConfigError, match=r"chian4.*chain4"):
        write_tasks(["chian4"], part="train", count=2, folder=tmp_path)
    with pytest.raises(ConfigError, match="no task"):
        write_tasks([], part="train", count=2, folder=tmp_path)
