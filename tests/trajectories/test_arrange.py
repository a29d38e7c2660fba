"""Answers arranged as histories."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coevo.evolution.prompt import TaskView
from coevo.evolution.types import Attempt, Edit
from coevo.programs import Program
from coevo.tasks import load_task
from coevo.tasks.types import Kind
from coevo.trajectories.arrange import START, Answer, Job, arrange, reference_fitness
from coevo.trajectories.settings import SynthConfig
from tests.trajectories.world import EXPRESSIONS, config

VIEW = TaskView("Add two numbers.", Kind.FUNCTION, "solve")


def answer(number: int, expression: str, fitness: float) -> Answer:
    program = Program.of(f"def solve(a, b):\n    return {expression}\n")
    right = round(4 * fitness)
    behaviour = tuple("passed" if i < right else "wrong" for i in range(4))
    return Answer(number, Attempt(program, fitness, fitness, feedback=f"number {number}"), behaviour)


def job(answers: list[Answer], best: float | None = 1.0, **changes) -> Job:
    return Job("add", VIEW, tuple(answers), best, config(**changes))


ANSWERS = [
    answer(START, "a", 0.25),
    answer(0, "a + b", 1.0),
    answer(1, "a - b", 0.5),
    answer(2, "a*b", 0.25),
    answer(3, "a + b  # again", 1.0),
    answer(4, "0", 0.0),
]

some = st.lists(st.tuples(st.sampled_from(EXPRESSIONS), st.sampled_from([0, 0.25, 0.5, 0.75, 1.0])), max_size=10)


@given(some, st.integers(0, 3), st.integers(0, 3), st.sampled_from(["worse", "any"]), st.integers(1, 3))
@settings(max_examples=60, deadline=None)
def test_rows_keep_the_rules(given_answers, low: int, more: int, earlier: str, histories: int) -> None:
    answers = [ANSWERS[0]] + [answer(i, e, f) for i, (e, f) in enumerate(given_answers)]
    high = min(3, low + more)
    rules = {"earlier_min": low, "earlier_max": high, "earlier": earlier, "histories": histories}
    found = arrange(job(answers, arrange=rules, diversity={"measure": "none", "nearest": 0.0}))
    fitness: dict[str, float] = {}
    for a in answers:
        fitness.setdefault(a.attempt.program.id, a.attempt.fitness or 0.0)
    assert found == arrange(job(answers, arrange=rules, diversity={"measure": "none", "nearest": 0.0}))
    assert len({row.state for row in found.rows}) == len(found.rows)
    for row in found.rows:
        values = [fitness[program] for program in row.history]
        assert low <= len(row.history) <= high
        assert values == sorted(values) and row.current not in row.history
        assert len(set(row.history)) == len(row.history)
        assert earlier == "any" or all(value <= fitness[row.current] for value in values)
        assert row.headroom == pytest.approx(max(1.0, max(fitness.values())) - fitness[row.current])
        assert row.right is (fitness[row.current] == 1.0)


def test_copies_are_one_answer_and_the_start_takes_part_or_not() -> None:
    found = arrange(job(ANSWERS))
    assert found.counts["copy"] == 1
    start = ANSWERS[0].attempt.program.id
    shown = {program for row in found.rows for program in (row.current, *row.history)}
    assert start in shown
    found = arrange(job(ANSWERS, arrange={"start": False}))
    assert start not in {program for row in found.rows for program in (row.current, *row.history)}


def test_tasks_whose_answers_are_alike_are_dropped() -> None:
    alike = [ANSWERS[0], answer(0, "b", 0.25), answer(1, "b - 1", 0.25)]
    assert arrange(job(alike)).counts == {"alike": 2}
    kept = arrange(job(alike, diversity={"measure": "programs", "low": 0.9, "nearest": 0.0}))
    assert kept.rows and kept.measure == 1.0
    assert not arrange(job([ANSWERS[0]])).rows


def test_prompts_that_cannot_be_short_enough_make_no_row() -> None:
    long = answer(5, "a + " + " + ".join("b" for _ in range(900)), 0.75)
    found = arrange(job([*ANSWERS, long], prompt_chars=3000))
    assert found.counts["prompt_too_long"] == 1
    assert long.attempt.program.id not in {row.current for row in found.rows}


def test_styles_go_by_weight_and_the_seed_draws_histories() -> None:
    both = arrange(job(ANSWERS, arrange={"histories": 20, "styles": {"rewrite": 1.0, "diff": 1.0}}))
    assert {row.style for row in both.rows} == {Edit.REWRITE, Edit.DIFF}
    only = arrange(job(ANSWERS, arrange={"styles": {"diff": 1.0, "rewrite": 0.0}}))
    assert {row.style for row in only.rows} == {Edit.DIFF}
    assert arrange(job(ANSWERS, seed=1)) != arrange(job(ANSWERS, seed=2))


def test_headroom_is_over_the_reference_or_the_best_answer() -> None:
    anything = {"earlier": "any"}
    low = arrange(job(ANSWERS, best=0.5, arrange=anything))
    assert max(row.headroom or 0 for row in low.rows) == 1.0
    high = arrange(job(ANSWERS, best=1.5, arrange=anything))
    assert min(row.headroom or 0 for row in high.rows) == 0.5


def test_fitness_of_references_by_definition() -> None:
    timed = load_task("prime_count")
    weights = timed.config.fitness
    expected = (weights.correctness + 0.5 * weights.efficiency) / (weights.correctness + weights.efficiency)
    assert reference_fitness(timed.config, has_reference=True) == pytest.approx(expected)
    assert reference_fitness(timed.config, has_reference=False) is None
    assert reference_fitness(load_task("circle_packing").config, has_reference=False) == 1.0
    saturating = timed.config.model_copy(update={"fitness": weights.model_copy(update={"name": "metaevolve"})})
    assert reference_fitness(saturating, has_reference=True) is None


def test_defaults_are_the_papers() -> None:
    found = SynthConfig()
    assert (found.samples, found.mix.right, found.ask) == (10, 0.8, {"write": 1.0})
    assert (found.arrange.earlier_min, found.arrange.earlier_max) == (1, 3)
