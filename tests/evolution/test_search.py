"""The search, end to end: scripted replies, the real judge, the real sandbox, the real store."""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from coevo.errors import ConfigError, InfrastructureError, ModelError, UsageError
from coevo.evaluation.pool import InlinePool
from coevo.evolution.result import Progress, SearchResult, Stop
from coevo.evolution.search import search
from coevo.evolution.settings import SearchConfig
from coevo.evolution.worker import measure
from coevo.models.ensemble import Ensemble
from coevo.models.scripted import Scripted, ScriptedModel
from coevo.models.spec import ModelSpec
from coevo.models.types import Request
from coevo.runs import Budget, Run, State
from coevo.tasks import load_task
from coevo.tasks.types import Task
from tests.evolution.problems import REPLIES, judges, line_task, pool_of, program

SMALL = {"batch": 6, "islands": 2, "population": 20, "migrate_every": 2, "steps": 30, "verify": False}


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Task:
    return line_task(tmp_path_factory.mktemp("line") / "line")


@pytest.fixture(scope="module")
def pool(task: Task):
    with InlinePool(judges(task)) as pool:
        yield pool


def scripted(script: Any = REPLIES, name: str = "scripted", **options: Any) -> ScriptedModel:
    return ScriptedModel(script, spec=ModelSpec(kind="scripted", **options), name=name)


def run_search(
    folder: Path,
    task: Task,
    pool,
    *,
    script: Any = REPLIES,
    budget: Budget | None = None,
    models=None,
    observer=None,
    **settings: Any,
) -> SearchResult:
    """A search in `folder`, new or resumed."""
    config = SearchConfig(**{**SMALL, **settings})
    if models is None and script is not None:
        models = Ensemble([scripted(script)], [1.0])
    if (folder / "run.db").exists():
        run = Run.open(folder, write=True, budget=budget)
    else:
        run = Run.create(folder, kind="evolve", config={"search": config.model_dump()}, budget=budget)
    with run:
        return search(task, run, pool=pool, config=config, models=models, observer=observer)


def digest(folder: Path) -> str:
    with Run.open(folder, write=False) as run:
        return run.digest()


def candidates(folder: Path) -> list[dict[str, Any]]:
    with Run.open(folder, write=False) as run:
        return [event.payload | {"step": event.step} for event in run.events(kinds=["candidate"])]


def test_a_search_improves_on_its_start_and_says_so(tmp_path: Path, task: Task, pool) -> None:
    seen: list[Progress] = []
    result = run_search(tmp_path / "r", task, pool, steps=60, verify=True, observer=seen.append)
    assert result.stop is Stop.STEPS and result.steps == 61
    assert result.start is not None and result.best is not None and result.verified is not None
    assert result.best.score > result.start.score
    assert result.verified.gain > 0 and result.verified.search == result.best
    assert [p.candidate.step for p in seen] == list(range(61))
    assert [p.best_fitness for p in seen] == sorted(p.best_fitness for p in seen)
    assert seen[0].improved and seen[-1].commits == 61
    edits = Counter(row["decision"]["edit"] for row in candidates(tmp_path / "r"))
    assert set(edits) == {"start", "rewrite", "diff", "crossover", "tune", "mutate", "splice"}
    with Run.open(tmp_path / "r", write=False) as run:
        assert run.state() is State.FINISHED
        assert result.best_program is not None and run.program(result.best_program.id) == result.best_program


def test_every_kind_of_reply_is_an_outcome(tmp_path: Path, task: Task, pool) -> None:
    run_search(tmp_path / "r", task, pool, steps=60, proposers={"rewrite": 1})
    found = Counter(
        row.get("rejection", row.get("evaluation", {}).get("outcome")) for row in candidates(tmp_path / "r")
    )
    assert {"scored", "failed", "refusal", "syntax", "no_code", "empty"} <= set(found)


def test_rejections_and_feedback_reach_the_next_prompt(tmp_path: Path, task: Task, pool) -> None:
    prompts: list[str] = []

    def answer(request: Request) -> str:
        prompts.append(request.messages[-1].content)
        return "no code here at all, sorry to say" if len(prompts) == 1 else program(2.0, len(prompts) / 7)

    run_search(tmp_path / "r", task, pool, script=answer, strategy="sequential", proposers={"rewrite": 1}, steps=3)
    assert "rejected" not in prompts[0] and "mean distance 1.66667" in prompts[0]
    assert "Your last answer was rejected" in prompts[1]
    assert "rejected" not in prompts[2] and "Attempt 1" in prompts[2]


def test_a_model_that_repeats_a_program_is_told_so(tmp_path: Path, task: Task, pool) -> None:
    prompts: list[str] = []

    def answer(request: Request) -> str:
        prompts.append(request.messages[-1].content)
        return program(0.0, 9.0)

    run_search(tmp_path / "r", task, pool, script=answer, strategy="hill_climb", proposers={"rewrite": 1}, steps=3)
    assert [row.get("duplicate", False) for row in candidates(tmp_path / "r")] == [False, False, True, True]
    told = ["repeats a program that was tried before with fitness" in prompt for prompt in prompts]
    assert told == [False, False, True]


def test_equal_programs_are_judged_once(tmp_path: Path, task: Task, pool) -> None:
    result = run_search(
        tmp_path / "r", task, pool, script=[program(2.0, 0.5)], proposers={"rewrite": 1}, steps=20, stall=None
    )
    rows = candidates(tmp_path / "r")
    assert result.evaluated == 2
    assert sum(row.get("duplicate", False) or row.get("rejection") == "unchanged" for row in rows) == 19
    assert sum(row.get("duplicate", False) for row in rows) >= 5
    assert result.spent["evaluations"] == 2 and result.spent["proposals"] == 20
    assert sum(row["charged"]["evaluations"] for row in rows) == 2


@pytest.mark.parametrize("schedule", ["rounds", "steady"])
def test_workers_do_not_change_a_search(tmp_path: Path, task: Task, schedule: str) -> None:
    digests = set()
    for workers in (0, 1, 8):
        with pool_of(task, workers) as pool:
            run_search(tmp_path / f"{workers}", task, pool, schedule=schedule, verify=True, steps=60)
        digests.add(digest(tmp_path / f"{workers}"))
    assert len(digests) == 1


def test_another_seed_is_another_search(tmp_path: Path, task: Task, pool) -> None:
    run_search(tmp_path / "a", task, pool)
    run_search(tmp_path / "b", task, pool, seed=1)
    assert digest(tmp_path / "a") != digest(tmp_path / "b")


@pytest.mark.parametrize(
    "budget",
    [Budget(evaluations=9), Budget(proposals=11), Budget(tokens=9000), Budget(usd=0.02), Budget(cpu_minutes=0.034)],
    ids=lambda b: str(b),
)
def test_budgets_end_a_search_and_are_not_overspent(tmp_path: Path, task: Task, pool, budget: Budget) -> None:
    models = Ensemble([scripted(price_in=1.0, price_out=2.0, max_tokens=500)], [1.0])
    result = run_search(
        tmp_path / "r", task, pool, models=models, budget=budget, steps=400, proposers={"rewrite": 1, "mutate": 1}
    )
    assert result.stop is Stop.BUDGET and "left; the next step may take" in result.message
    for name, amount in budget.model_dump().items():
        if amount is not None:
            assert 0 < result.spent[name] <= amount
    if budget.evaluations:
        assert result.spent["evaluations"] == 9


def test_an_extended_budget_goes_on_like_a_larger_one(tmp_path: Path, task: Task, pool) -> None:
    run_search(tmp_path / "a", task, pool, budget=Budget(evaluations=7), steps=400)
    more = run_search(tmp_path / "a", task, pool, budget=Budget(evaluations=15), steps=400)
    assert more.stop is Stop.BUDGET and more.spent["evaluations"] == 15
    steps = [row["step"] for row in candidates(tmp_path / "a")]
    assert steps == list(range(len(steps)))


def test_a_finished_search_costs_nothing_to_resume(tmp_path: Path, task: Task, pool) -> None:
    first = run_search(tmp_path / "r", task, pool, verify=True)
    before = digest(tmp_path / "r")
    with Run.open(tmp_path / "r", write=False) as run:
        counts = run.counts()
    again = run_search(tmp_path / "r", task, pool, verify=True, script=_no_calls)
    assert (
        again.verified == first.verified
        and again.best == first.best
        and again.spent["evaluations"] == first.spent["evaluations"]
    )
    assert digest(tmp_path / "r") == before
    with Run.open(tmp_path / "r", write=False) as run:
        assert {k: v for k, v in run.counts().items() if k != "events"} == {
            k: v for k, v in counts.items() if k != "events"
        }


def _no_calls(request: Request) -> str:
    raise AssertionError("the model was asked again")


@pytest.mark.parametrize("schedule", ["rounds", "steady"])
def test_more_steps_continue_a_finished_search_as_one(tmp_path: Path, task: Task, pool, schedule: str) -> None:
    run_search(tmp_path / "a", task, pool, steps=12, schedule=schedule)
    run_search(tmp_path / "a", task, pool, steps=30, schedule=schedule)
    run_search(tmp_path / "b", task, pool, steps=30, schedule=schedule)
    assert digest(tmp_path / "a") == digest(tmp_path / "b")


def test_target_ends_a_search(tmp_path: Path, task: Task, pool) -> None:
    result = run_search(tmp_path / "r", task, pool, target=9.0, steps=400)
    assert result.stop is Stop.TARGET and result.best is not None and result.best.score >= 9.0


def test_stall_counts_steps_without_a_new_evaluation(tmp_path: Path, task: Task, pool) -> None:
    result = run_search(tmp_path / "r", task, pool, script=["prose"], proposers={"rewrite": 1}, stall=7, steps=400)
    assert result.stop is Stop.STALL and 8 <= result.steps <= 8 + SMALL["batch"]


def test_a_model_that_is_down_is_an_error(tmp_path: Path, task: Task, pool) -> None:
    down = [Scripted(error="connection refused")]
    result = run_search(tmp_path / "r", task, pool, script=down, proposers={"rewrite": 1}, model_failures=5, steps=400)
    assert result.stop is Stop.MODEL_DOWN and result.stop.exit_code == 1 and "connection refused" in result.message
    assert result.spent["evaluations"] == 1


def test_a_model_that_can_never_answer_ends_the_search_at_once(tmp_path: Path, task: Task, pool) -> None:
    def broken(request: Request) -> str:
        raise ModelError("401: bad key")

    result = run_search(tmp_path / "r", task, pool, script=broken, proposers={"rewrite": 1}, steps=400)
    assert result.stop is Stop.MODEL_DOWN and "401: bad key" in result.message
    assert result.steps <= 1 + SMALL["batch"]


def test_failed_replies_do_not_move_the_bandit(tmp_path: Path, task: Task, pool) -> None:
    down = [Scripted(error="connection refused")]
    result = run_search(tmp_path / "r", task, pool, script=down, proposers={"rewrite": 1}, model_failures=5, steps=400)
    assert result.proposers == {}


def test_a_stop_file_ends_a_search_and_a_resume_goes_on(tmp_path: Path, task: Task, pool) -> None:
    folder = tmp_path / "a"

    def stopper(progress: Progress) -> None:
        if progress.commits == 8:
            (folder / "stop").touch()

    result = run_search(folder, task, pool, observer=stopper)
    assert result.stop is Stop.INTERRUPTED and result.stop.exit_code == 0 and result.steps < 31
    assert not (folder / "stop").exists()
    assert run_search(folder, task, pool).stop is Stop.STEPS
    run_search(tmp_path / "b", task, pool)
    assert digest(folder) == digest(tmp_path / "b")


def test_a_signal_ends_a_search_in_order(tmp_path: Path, task: Task, pool) -> None:
    before = signal.getsignal(signal.SIGTERM)

    def killer(progress: Progress) -> None:
        if progress.commits == 8:
            os.kill(os.getpid(), signal.SIGTERM)

    result = run_search(tmp_path / "r", task, pool, observer=killer)
    assert result.stop is Stop.INTERRUPTED and "SIGTERM" in result.message
    assert signal.getsignal(signal.SIGTERM) is before
    with Run.open(tmp_path / "r", write=False) as run:
        assert run.state() is State.STOPPED


def test_a_search_runs_outside_the_main_thread(tmp_path: Path, task: Task, pool) -> None:
    results: list[SearchResult] = []
    thread = threading.Thread(target=lambda: results.append(run_search(tmp_path / "r", task, pool, steps=6)))
    thread.start()
    thread.join()
    assert results[0].stop is Stop.STEPS


def test_an_observer_that_raises_cannot_fail_a_search(tmp_path: Path, task: Task, pool) -> None:
    def broken(progress: Progress) -> None:
        raise RuntimeError("no terminal")

    with pytest.warns(UserWarning, match="no longer shown: RuntimeError: no terminal"):
        assert run_search(tmp_path / "r", task, pool, steps=3, observer=broken).stop is Stop.STEPS


def test_several_models_share_by_weight(tmp_path: Path, task: Task, pool) -> None:
    models = Ensemble([scripted(name="a"), scripted(name="b")], [1.0, 3.0])
    run_search(tmp_path / "r", task, pool, models=models, proposers={"rewrite": 1}, steps=200, stall=None)
    counts = Counter(row["decision"].get("model") for row in candidates(tmp_path / "r"))
    assert counts["b"] > 2 * counts["a"] > 20


def test_operators_search_without_any_model(tmp_path: Path, task: Task, pool) -> None:
    result = run_search(tmp_path / "r", task, pool, script=None, steps=60)
    edits = {row["decision"]["edit"] for row in candidates(tmp_path / "r")}
    assert edits == {"start", "tune", "mutate", "splice"}
    assert result.best is not None and result.start is not None and result.best.score > result.start.score


def test_proposers_that_need_a_model_are_refused_without_one(tmp_path: Path, task: Task, pool) -> None:
    with pytest.raises(ConfigError, match="all need a model"):
        run_search(tmp_path / "r", task, pool, script=None, proposers={"rewrite": 1})


def test_a_budget_in_dollars_needs_prices(tmp_path: Path, task: Task, pool) -> None:
    class Unpriced(ScriptedModel):
        priced = False

    with pytest.raises(ConfigError, match="has no prices"):
        run_search(tmp_path / "r", task, pool, models=Ensemble([Unpriced(REPLIES)], [1.0]), budget=Budget(usd=1.0))


def test_a_prompt_that_cannot_fit_is_refused_before_anything_is_spent(tmp_path: Path, task: Task, pool) -> None:
    models = Ensemble([scripted(context=300, max_tokens=200)], [1.0])
    with pytest.raises(UsageError, match="needs"):
        run_search(tmp_path / "r", task, pool, models=models, proposers={"rewrite": 1})


def test_a_small_context_gets_a_shorter_prompt(tmp_path: Path, task: Task, pool) -> None:
    lengths: list[int] = []

    def answer(request: Request) -> str:
        lengths.append(sum(len(m.content) for m in request.messages))
        return program(1.0 + len(lengths) / 50, 0.5, "x" * 900)

    for context in (8000, 1300):
        lengths.clear()
        spec = ModelSpec(kind="scripted", context=context, max_tokens=300)
        models = Ensemble([ScriptedModel(answer, spec=spec)], [1.0])
        run_search(tmp_path / str(context), task, pool, models=models, proposers={"rewrite": 1}, steps=12)
        if context == 8000:
            longest = max(lengths)
    assert max(lengths) < longest


@pytest.mark.parametrize("workers", [0, 2])
def test_equal_programs_in_flight_share_the_first_ones_text(tmp_path: Path, task: Task, workers: int) -> None:
    """Whatever arrives first: the run keeps, and judges, the text of the lowest step."""
    texts = [program(2.0, 0.5, f"text of step {step}") for step in range(1, 7)]
    digests = set()
    for order in ([0, 0, 0, 0, 0, 0], [0.4, 0.2, 0, 0, 0, 0.3], [0.3, 0, 0.1, 0.2, 0, 0]):
        script = [
            Scripted(text, key=f"step-{step}", delay_s=delay)
            for step, (text, delay) in enumerate(zip(texts, order, strict=True), 1)
        ]
        folder = tmp_path / "-".join(map(str, order))
        models = Ensemble([scripted(script, batch=1)], [1.0])
        with pool_of(task, workers) as pool:
            result = run_search(folder, task, pool, models=models, proposers={"rewrite": 1}, steps=6)
        assert result.evaluated == 2 and result.spent["evaluations"] == 2
        assert result.best_program is not None and "# text of step 1" in result.best_program.source
        digests.add(digest(folder))
    assert len(digests) == 1


class Dying(InlinePool):
    """Stops the process's work in mid-air, as a kill would, at the n-th evaluation."""

    def __init__(self, setup: Any, at: int | None) -> None:
        super().__init__(setup)
        self.at, self.measured = at, 0

    def submit(self, fn: Any, *args: Any, deadline_s: float | None = None) -> Any:
        if fn is measure:
            self.measured += 1
            if self.measured == self.at:
                raise KeyboardInterrupt
        return super().submit(fn, *args, deadline_s=deadline_s)


def test_a_resume_judges_nothing_that_was_judged_and_stored(tmp_path: Path, task: Task) -> None:
    with Dying(judges(task), None) as pool:
        run_search(tmp_path / "whole", task, pool, steps=40)
        needed = pool.measured
    total = 0
    for at in (3, 9, 9, 2, None):
        with Dying(judges(task), at) as pool:
            try:
                run_search(tmp_path / "dying", task, pool, steps=40)
            except KeyboardInterrupt:
                assert at is not None
            total += pool.measured
    lost_at_most = 4 * (SMALL["batch"] + 1)
    assert needed <= total <= needed + lost_at_most
    assert digest(tmp_path / "dying") == digest(tmp_path / "whole")


class Faulty(InlinePool):
    """A machine that cannot judge every n-th program."""

    def __init__(self, setup: Any, every: int) -> None:
        super().__init__(setup)
        self.every, self.count = every, 0

    def submit(self, fn: Any, *args: Any, deadline_s: float | None = None) -> Any:
        self.count += fn is measure
        if fn is measure and self.count > 1 and self.count % self.every == 0:
            lost: Future[Any] = Future()
            lost.set_exception(InfrastructureError("the worker died twice"))
            return lost
        return super().submit(fn, *args, deadline_s=deadline_s)


def test_unmeasured_programs_are_neither_zero_nor_charged(tmp_path: Path, task: Task) -> None:
    with Faulty(judges(task), every=3) as pool:
        result = run_search(tmp_path / "r", task, pool, steps=30)
    rows = [row for row in candidates(tmp_path / "r") if row.get("evaluation", {}).get("outcome") == "unmeasured"]
    assert result.stop is Stop.STEPS and rows
    assert all("fitness" not in row["evaluation"] and row["charged"]["evaluations"] == 0 for row in rows)
    assert "the worker died twice" in rows[0]["evaluation"]["reason"]
    with Run.open(tmp_path / "r", write=False) as run:
        assert all(run.has_program(row["program"]) for row in rows)


def test_a_machine_that_cannot_judge_is_an_error(tmp_path: Path, task: Task) -> None:
    with Faulty(judges(task), every=1) as pool:
        result = run_search(tmp_path / "r", task, pool, steps=400)
    assert result.stop is Stop.MACHINE and result.stop.exit_code == 1
    assert "steps in a row could not be measured" in result.message


def test_a_start_that_cannot_be_measured_raises(tmp_path: Path, task: Task) -> None:
    class Dead(InlinePool):
        def submit(self, fn: Any, *args: Any, deadline_s: float | None = None) -> Any:
            if fn is not measure:
                return super().submit(fn, *args, deadline_s=deadline_s)
            lost: Future[Any] = Future()
            lost.set_exception(InfrastructureError("no walls"))
            return lost

    with Dead(judges(task)) as pool, pytest.raises(InfrastructureError, match="start program could not be measured"):
        run_search(tmp_path / "r", task, pool)


def test_a_failing_start_can_be_improved_on(tmp_path: Path) -> None:
    task = line_task(tmp_path / "line")
    (tmp_path / "line" / "program.py").write_text("def solve(points):\n    raise NotImplementedError\n")
    task = load_task(tmp_path / "line")
    good = "```python\ndef solve(points):\n    return [3 * x for x in points]\n```"
    with InlinePool(judges(task)) as pool:
        result = run_search(
            tmp_path / "r", task, pool, script=["prose", good], steps=12, verify=True, proposers={"rewrite": 1}
        )
    assert result.start is not None and result.start.failure is not None
    assert result.best is not None and result.best.score == pytest.approx(9.0)
    assert result.verified is not None and result.verified.gain > 0
