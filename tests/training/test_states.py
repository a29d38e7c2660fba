"""Which states a step starts from: exact shares, every state once before any twice, nothing to keep for resume."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coevo.episodes.types import Source, StartState
from coevo.errors import ConfigError
from coevo.evolution.types import Attempt, Context, Edit
from coevo.programs import Program
from coevo.training.settings import StatesConfig
from coevo.training.states import PolicyState, Shares, States, thinned

weights = st.dictionaries(st.sampled_from("abcd"), st.floats(0.01, 10), min_size=1)


def state(name: str, source: Source = Source.STATEMENT) -> StartState:
    context = Context(Attempt(Program.of(f"# {name}\nx = {name!r}\n"), 0.0))
    return StartState(name, "task", context, Edit.REWRITE, source)


def states(count: int, source: Source = Source.STATEMENT) -> list[StartState]:
    return [state(f"{source.value}{i}", source) for i in range(count)]


@given(weights, st.integers(1, 200))
def test_after_any_number_of_turns_every_share_is_met_within_one(shares: dict[str, float], turns: int) -> None:
    table = Shares(shares)
    counts = Counter(table.turn(i)[0] for i in range(turns))
    for name, weight in shares.items():
        assert abs(counts[name] - turns * weight / sum(shares.values())) < len(shares)
        assert counts[name] >= int(turns * weight / sum(shares.values())) - (len(shares) - 1)


@given(weights, st.integers(0, 100))
def test_turns_are_a_function_of_their_number(shares: dict[str, float], number: int) -> None:
    forward = Shares(shares)
    before = [forward.turn(i) for i in range(number + 1)]
    assert Shares(shares).turn(number) == before[-1]
    ours = [turn for name, turn in before if name == before[-1][0]]
    assert ours == list(range(len(ours)))


def test_two_sources_by_equal_shares_alternate() -> None:
    config = StatesConfig(mix={"statement": 0.5, "synth": 0.5}, trajectories=("x",))
    made = States(config, seed=1, fixed={Source.STATEMENT: states(3), Source.SYNTH: states(3, Source.SYNTH)})
    drawn = [one.source for step in range(1, 6) for one in made.draw(step, 4)]
    assert Counter(drawn) == {Source.STATEMENT: 10, Source.SYNTH: 10}


@pytest.mark.parametrize("groups", [1, 3, 5])
def test_every_state_comes_once_before_any_comes_again(groups: int) -> None:
    made = States(StatesConfig(), seed=3, fixed={Source.STATEMENT: states(15)})
    drawn = [one.id for step in range(1, 30 // groups + 1) for one in made.draw(step, groups)]
    assert sorted(drawn[:15]) == sorted(drawn[15:30]) == sorted(one.id for one in states(15))
    assert drawn[:15] != drawn[15:30]


def test_a_step_is_drawn_alike_whatever_was_drawn_before() -> None:
    fixed = {Source.STATEMENT: states(7)}
    early = States(StatesConfig(), seed=5, fixed=fixed)
    for step in range(1, 9):
        early.draw(step, 3)
    late = States(StatesConfig(), seed=5, fixed=fixed)
    assert [s.id for s in late.draw(9, 3)] == [s.id for s in early.draw(9, 3)]
    other = States(StatesConfig(), seed=6, fixed=fixed)
    assert [s.id for step in range(1, 4) for s in other.draw(step, 7)] != [
        s.id for step in range(1, 4) for s in late.draw(step, 7)
    ]


def test_policy_states_come_from_both_halves_by_the_early_share_newest_pool_only() -> None:
    config = StatesConfig(mix={"policy": 1.0}, early=0.25, pool=8)
    made = States(config, seed=0, fixed={})
    with pytest.raises(ConfigError, match="reached none"):
        made.draw(1, 1)
    made.refresh([PolicyState(state(f"old{i}", Source.POLICY), early=True) for i in range(8)])
    fresh = [PolicyState(state(f"new{i}", Source.POLICY), early=i % 2 == 0) for i in range(8)]
    made.refresh(fresh)
    drawn = [one.id for step in range(1, 11) for one in made.draw(step, 8)]
    assert all(name.startswith("new") for name in drawn)
    early = sum(int(name[3:]) % 2 == 0 for name in drawn)
    assert abs(early - 20) <= 1
    assert made.redraw(3, 1, 0, Source.POLICY).id.startswith("new")


def test_a_source_without_states_is_refused() -> None:
    config = StatesConfig(mix={"statement": 1.0, "synth": 0.1}, trajectories=("folder",))
    with pytest.raises(ConfigError, match=r"'synth'.*not one such state"):
        States(config, seed=0, fixed={Source.STATEMENT: states(1)})


def test_a_mix_names_where_its_sources_come_from() -> None:
    with pytest.raises(ValueError, match=r"states\.trajectories"):
        StatesConfig(mix={"synth": 1.0})
    with pytest.raises(ValueError, match=r"states\.runs"):
        StatesConfig(mix={"search": 1.0})
    with pytest.raises(ValueError, match="below 0"):
        StatesConfig(mix={"statement": -1.0, "policy": 2.0})


@given(st.integers(0, 60), st.integers(1, 30), st.integers(0, 5))
def test_thinning_keeps_an_ordered_subset_of_the_right_size(count: int, limit: int, seed: int) -> None:
    kept = [one.id for one in thinned(iter(states(count)), limit=limit, seed=seed, name="x")]
    names = [one.id for one in states(count)]
    assert len(kept) == min(count, limit) and kept == [name for name in names if name in set(kept)]


def test_thinning_favours_no_place() -> None:
    hits = Counter(one.id for seed in range(400) for one in thinned(iter(states(10)), limit=3, seed=seed, name="x"))
    assert all(70 < hits[f"statement{i}"] < 170 for i in range(10))  # 120 expected, 9 a standard deviation
