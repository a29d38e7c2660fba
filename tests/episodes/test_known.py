"""What was judged in one step is not judged again in the next, where it could not come out differently."""

from __future__ import annotations

from dataclasses import replace

import pytest

from coevo.episodes.known import Known, is_steady, judge_seed
from coevo.episodes.running import run_episodes
from coevo.episodes.types import EpisodeConfig
from coevo.evaluation.types import Evaluation, Failure, Outcome, TestResult
from coevo.tasks import load_task
from tests.episodes.stage import CountingPool, TablePolicy, fenced, ramp_task, starts_of, state_of, upto

CONFIG = EpisodeConfig(max_tokens=600)


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    return ramp_task(tmp_path_factory.mktemp("tasks") / "ramp3")


def steps(task, pool, known, count=3):
    """Three replies a step, of two programs, one of them in another layout."""
    policy = TablePolicy(
        lambda text, seed, n: (fenced(upto(3)), fenced(upto(3, note="  # same")), fenced(upto(2)))[seed % 3]
    )
    for step in range(count):
        starts = starts_of(state_of(task), 9)
        yield run_episodes(policy, starts, CONFIG, pool=pool, tasks={task.name: task}, seed=1, step=step, known=known)


def judged(rollouts):
    """The evaluations without what was measured of the machine."""
    times = {"cpu_s": 0.0, "wall_s": 0.0, "peak_mb": 0.0, "executions": 0, "feedback": ""}
    found = [e for r in rollouts for e in (r.last.judged.evaluation, r.last.judged.hidden)]
    return {(e.program_id, e.split): replace(e, **times) for e in found}


def test_a_program_is_judged_once_a_run_and_equal_replies_are_read_once(task) -> None:
    with CountingPool([task]) as pool:
        remembered = [judged(one) for one in steps(task, pool, Known())]
        work = [job[0] for job in pool.jobs]
        assert work.count("measure") == 2 * 2 and work.count("read") <= 3 * 3
    with CountingPool([task]) as pool:
        done_again = [judged(one) for one in steps(task, pool, None)]
        assert [job[0] for job in pool.jobs].count("measure") == 3 * 2 * 2
    assert remembered == done_again, "what is remembered is what would come out"


def test_what_is_known_costs_nothing(task) -> None:
    with CountingPool([task]) as pool:
        first, *_, last = steps(task, pool, Known())
    spent = [
        sum(r.last.judged.evaluation.cpu_s + r.last.judged.evaluation.executions for r in one) for one in (first, last)
    ]
    assert spent[0] > 0 and spent[1] == 0


def test_timed_and_open_tasks_are_judged_anew_every_step() -> None:
    timed, scored = load_task("palindromes").config, load_task("circle_packing").config
    assert not is_steady(timed) and not is_steady(scored)
    assert len({judge_seed(timed, seed=3, step=step) for step in range(5)}) == 5
    plain = timed.model_copy(update={"timing": None})
    assert is_steady(plain) and len({judge_seed(plain, seed=3, step=step) for step in range(5)}) == 1


def test_what_might_come_out_differently_is_not_remembered() -> None:
    good = Evaluation("p", "t", "public", 0, Outcome.SCORED, 1.0)
    failed = replace(good, outcome=Outcome.FAILED, fitness=0.0)
    late = replace(good, tests=(TestResult("a", True, "ok"), TestResult("b", False, "wall")))
    cases = [
        (good, True),
        (replace(failed, failure=Failure.CRASH), True),
        (replace(failed, failure=Failure.TIMEOUT), False),
        (replace(failed, failure=Failure.MEMORY), False),
        (replace(good, outcome=Outcome.UNMEASURED, fitness=None), False),
        (late, False),
    ]
    for evaluation, kept in cases:
        known = Known()
        known.keep("key", evaluation)
        assert (known.find("key") is not None) == kept, evaluation
    known = Known(kept=2)
    for key in "abc":
        known.keep(key, good)
        known.find("a")
    assert [known.find(key) is not None for key in "abc"] == [True, False, True]
