"""Schedule, bandit, purse, tuner: pure parts of the search."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coevo.errors import BudgetSpent
from coevo.evolution.bandit import Bandit, nominal_cost, table
from coevo.evolution.purse import Purse
from coevo.evolution.schedule import ready
from coevo.evolution.settings import SearchConfig
from coevo.evolution.state import State
from coevo.evolution.tuner import FEW, FIRST_STEPS, MAX_OPTIMISERS, PATIENCE, Tuner
from coevo.evolution.types import Edit
from coevo.runs.types import to_units
from coevo.streams import stream
from tests.evolution.build import candidate, program_id


@given(st.integers(1, 200), st.integers(1, 20), st.sampled_from(["rounds", "steady"]))
def test_a_step_waits_for_earlier_steps_only_and_never_for_more_than_needed(step: int, batch: int, schedule) -> None:
    commits = ready(step, schedule, batch)
    assert 1 <= commits <= step
    assert step - commits < batch
    assert commits <= ready(step + 1, schedule, batch)


def test_schedules_by_example() -> None:
    assert [ready(i, "rounds", 3) for i in range(8)] == [0, 1, 1, 1, 4, 4, 4, 7]
    assert [ready(i, "steady", 3) for i in range(8)] == [0, 1, 1, 1, 2, 3, 4, 5]
    assert [ready(i, "steady", 1) for i in range(4)] == [0, 1, 2, 3]


def draws(bandit: Bandit, weights: dict[str, float], n: int = 2000, *, learn: bool = True) -> Counter[str]:
    return Counter(bandit.draw(stream(5, "bandit", i), weights, learn=learn) for i in range(n))


def test_bandit_prefers_what_gains_more_per_cost() -> None:
    bandit = Bandit()
    rng = random.Random(1)
    for _ in range(300):
        bandit.tell("good", gain=float(rng.random() < 0.3), cost=1.0)
        bandit.tell("dear", gain=float(rng.random() < 0.3), cost=5.0)
        bandit.tell("never", gain=0.0, cost=1.0)
    found = draws(bandit, {"good": 1, "dear": 1, "never": 1})
    assert found["good"] > 4 * found["dear"] > 0
    assert found["never"] > 0


def test_bandit_without_learning_and_with_few_arms() -> None:
    bandit = Bandit()
    bandit.tell("a", gain=1.0, cost=1.0)
    found = draws(bandit, {"a": 1, "b": 3}, learn=False)
    assert found["b"] / found["a"] == pytest.approx(3, rel=0.2)
    assert draws(bandit, {"a": 1, "b": 0})["a"] == 2000
    with pytest.raises(ValueError, match="no proposer"):
        bandit.draw(random.Random(0), {})
    with pytest.raises(ValueError, match="no proposer"):
        bandit.draw(random.Random(0), {"a": 0.0})


def test_bandit_weights_tilt_equal_arms() -> None:
    found = draws(Bandit(), {"a": 1, "b": 9})
    assert found["b"] > 4 * found["a"]


@given(st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, 1), st.floats(0.1, 1e6)), max_size=200))
@settings(deadline=None)
def test_bandit_takes_any_history(history: list[tuple[str, float, float]]) -> None:
    bandit = Bandit()
    for name, gain, cost in history:
        bandit.tell(name, gain=gain, cost=cost)
    for i in range(5):
        assert bandit.draw(stream(0, i), {"a": 1.0, "b": 1.0, "new": 1.0}) in {"a", "b", "new"}
    assert all(np.isfinite(list(row.values())).all() for row in table(bandit, "abcd").values())


def test_copying_the_better_parent_into_the_worse_is_no_gain() -> None:
    state = State(SearchConfig(islands=1), {})
    state.apply(candidate(0, 0.9))
    state.apply(candidate(1, 0.2, parent=0))
    for step, fitness, gained in ((2, 0.7, False), (3, 0.9, False), (4, 0.95, True)):
        child = candidate(step, fitness, parent=1, edit=Edit.SPLICE)
        before = state.bandit.arms["splice"].gain if "splice" in state.bandit.arms else 0.0
        state.apply(replace(child, decision=replace(child.decision, others=(program_id(0),))))
        assert (state.bandit.arms["splice"].gain > before) == gained


def test_what_a_model_was_shown_is_no_parent() -> None:
    state = State(SearchConfig(islands=1), {})
    state.apply(candidate(0, 0.9))
    state.apply(candidate(1, 0.2, parent=0))
    child = candidate(2, 0.7, parent=1, edit=Edit.REWRITE)
    state.apply(replace(child, decision=replace(child.decision, others=(program_id(0),))))
    assert state.bandit.arms["rewrite"].gain > 0


def test_gain_is_relative_to_what_was_gained_lately() -> None:
    bandit = Bandit()
    assert bandit.share(0, 0.0) == 0.0 and bandit.share(0, -1.0) == 0.0
    assert bandit.share(0, 1.0) == 1.0
    early = bandit.share(0, 1e-4)
    for _ in range(1000):
        late = bandit.share(0, 1e-4)
    assert early < 0.02 and late > 0.99
    assert bandit.share(1, 1e-9) == 1.0


def test_nominal_cost_is_one_evaluation_and_the_tokens() -> None:
    assert nominal_cost(0, 0.001) == 1.0
    assert nominal_cost(2000, 0.001) == 3.0
    assert nominal_cost(2000, 0.0) == 1.0


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), max_size=60), st.integers(1, 40))
def test_purse_never_lets_committed_and_held_pass_the_limit(steps: list[tuple[int, int]], limit: int) -> None:
    purse = Purse({"tokens": limit, "minutes": 1})
    waiting: list[tuple[int, int]] = []
    for step, (ask, use) in enumerate(steps):
        try:
            purse.require({"tokens": ask, "evaluations": 5})
        except BudgetSpent:
            while waiting:
                first, used = waiting.pop(0)
                purse.commit(first, {"tokens": used})
            continue
        purse.hold(step, {"tokens": ask})
        waiting.append((step, min(ask, use)))
        held = sum(purse._held[s]["tokens"] for s, _ in waiting)
        assert purse.spent["tokens"] + held <= limit


def test_purse_names_what_is_missing_and_ignores_the_clock() -> None:
    purse = Purse({"usd": to_units("usd", 0.5), "minutes": 1})
    purse.require({"usd": 0.5, "minutes": 99})
    purse.hold(1, {"usd": 0.4})
    with pytest.raises(BudgetSpent, match=r"0\.1 usd left; the next step may take 0\.2"):
        purse.require({"usd": 0.2})
    purse.commit(1, {"usd": 0.1})
    purse.require({"usd": 0.2})


def sphere(offsets: tuple[float, ...]) -> float:
    return -sum((x - 0.7) ** 2 for x in offsets)


def run_tuner(steps: int, lag: int, *, seed: int = 3) -> tuple[list[float], Tuner]:
    tuner, pending, values = Tuner(seed), [], []
    for step in range(steps):
        pending.append(tuner.ask((0, "k"), "p0", 4, step))
        if len(pending) == lag:
            asked = pending.pop(0)
            values.append(sphere(asked.offsets))
            tuner.tell((0, "k"), asked, values[-1])
    return values, tuner


@pytest.mark.parametrize(("lag", "within"), [(1, 1e-6), (8, 1e-6), (30, 1e-4)])
def test_tuner_minimises_whatever_the_lag(lag: int, within: float) -> None:
    values, _ = run_tuner(1500, lag)
    assert max(values) > -within


def test_a_first_generation_tries_all_step_sizes_and_moves_few_constants_at_once() -> None:
    tuner = Tuner(0)
    drawn = [np.array(tuner.ask((0, "k"), "p", 20, step).offsets) for step in range(200)]
    moved = Counter(int(np.count_nonzero(x)) for x in drawn)
    assert set(moved) == {FEW, 20} and min(moved.values()) > 60
    sizes = {min(FIRST_STEPS, key=lambda s, x=x: abs(np.log(s / x.std()))) for x in drawn if np.count_nonzero(x) == 20}
    assert sizes == set(FIRST_STEPS)
    assert all(np.count_nonzero(tuner.ask((0, "k"), "p", FEW, step).offsets) == FEW for step in range(20))


def test_the_distribution_starts_at_the_best_of_the_first_generation() -> None:
    tuner, told = Tuner(0), []
    for step in range(8):
        asked = tuner.ask((0, "k"), "p", 4, step)
        told.append((sphere(asked.offsets), asked.offsets))
        tuner.tell((0, "k"), asked, told[-1][0])
    best = np.array(max(told)[1])
    asked = [np.array(tuner.ask((0, "k"), "p", 4, step).offsets) for step in range(100, 500)]
    assert np.mean(asked, axis=0) == pytest.approx(best, abs=0.15 * np.abs(best).max())


def test_after_a_first_generation_of_failures_the_search_stays_close_to_the_founder() -> None:
    tuner = Tuner(0)
    for step in range(8):
        tuner.tell((0, "k"), tuner.ask((0, "k"), "p", 4, step), None)
    asked = np.array([tuner.ask((0, "k"), "p", 4, step).offsets for step in range(100, 500)])
    assert np.abs(asked).mean() < 2 * FIRST_STEPS[0]


def test_tuner_asks_are_pure_and_repeatable() -> None:
    values, tuner = run_tuner(60, 4)
    again, _ = run_tuner(60, 4)
    assert values == again
    assert tuner.ask((0, "k"), "p0", 4, 99) == tuner.ask((0, "k"), "p0", 4, 99)
    assert tuner.ask((0, "k"), "p0", 4, 99) != tuner.ask((0, "k"), "p0", 4, 98)


def test_tuner_takes_failures_and_gives_up_without_progress() -> None:
    tuner = Tuner(0)
    founders = set()
    for step in range(40 * PATIENCE):
        asked = tuner.ask((0, "k"), f"p{step}", 3, step)
        founders.add(asked.founder)
        tuner.tell((0, "k"), asked, None)
    assert len(founders) > 1


def test_tuner_ignores_what_another_founder_asked() -> None:
    tuner = Tuner(0)
    first = tuner.ask((0, "k"), "a", 2, 0)
    second = tuner.ask((0, "k"), "b", 2, 1)
    assert (first.founder, second.founder) == ("a", "b")
    tuner.tell((0, "k"), first, 1.0)
    before = tuner.ask((0, "k"), "x", 2, 5)
    for _ in range(50):
        tuner.tell((0, "k"), second, 9.0)
    assert tuner.ask((0, "k"), "x", 2, 5) == before and before.founder == "a"
    assert tuner.ask((1, "k"), "x", 2, 5).founder == "x"


def test_tuner_focuses_on_the_best_optimiser_that_has_learnt_something() -> None:
    tuner = Tuner(0)
    for step in range(30):
        for skeleton, fitness in (("good", 2.0), ("poor", 1.0)):
            tuner.tell((0, skeleton), tuner.ask((0, skeleton), skeleton, 3, step), fitness - step / 1e3)
    assert tuner.focus(0) == ("good", 3)
    assert tuner.focus(1) is None


def test_tuner_forgets_the_optimiser_not_told_for_longest() -> None:
    tuner = Tuner(0)
    for step in range(MAX_OPTIMISERS + 1):
        tuner.tell((0, f"k{step}"), tuner.ask((0, f"k{step}"), f"p{step}", 3, step), 0.0)
    assert tuner.ask((0, "k0"), "new", 3, 0).founder == "new"
    assert tuner.ask((0, "k1"), "new", 3, 0).founder == "p1"


def test_a_whole_program_in_answer_to_a_diff_prompt_is_taken_as_one() -> None:
    from coevo.evolution.types import Attempt, Context, Edit, Rejection
    from coevo.evolution.worker import Order, propose
    from coevo.programs import Program

    context = Context(Attempt(Program.of("def f(x):\n    return x + 1\n"), 0.5))
    whole = propose(None, Order(Edit.DIFF, context, "Sure:\n```python\ndef f(x):\n    return x + 2\n```\n"))  # type: ignore[arg-type]
    assert whole.proposal.program is not None and "x + 2" in whole.proposal.program.source
    assert whole.proposal.edit is Edit.DIFF
    prose = propose(None, Order(Edit.DIFF, context, "I would add two instead of one."))  # type: ignore[arg-type]
    assert prose.proposal.program is None and prose.proposal.rejection is Rejection.NO_CODE
