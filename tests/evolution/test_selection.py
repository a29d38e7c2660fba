"""Who becomes a parent, and what is shown beside it."""

from __future__ import annotations

import random
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coevo.config import parse
from coevo.errors import ConfigError
from coevo.evolution.archive import Island
from coevo.evolution.selection import SELECTIONS, inspire, partner, select
from coevo.evolution.settings import SearchConfig, SelectionConfig
from coevo.evolution.state import State
from coevo.streams import stream
from tests.evolution.build import candidate, program_id, random_state


def island_of(fitnesses: list[float], **more) -> Island:
    """One island with these fitnesses; member i is step i."""
    state = State(SearchConfig(islands=1, population=10_000, per_structure=10_000, bins=1), {})
    for step, fitness in enumerate(fitnesses):
        state.apply(candidate(step, fitness, parent=0 if step else None, **more))
    return state.archive.islands[0]


def drawn(island: Island, config: SelectionConfig, n: int = 4000) -> Counter[int]:
    """How often each rank was drawn."""
    ranks = {key[2]: rank for rank, key in enumerate(island.ranked)}
    return Counter(ranks[select(island, stream(1, "draw", i), config).id] for i in range(n))


@given(st.sampled_from(sorted(SELECTIONS)), st.integers(1, 60), st.integers(0, 10**6))
@settings(max_examples=80, deadline=None)
def test_every_strategy_draws_a_member_and_repeats_itself(name, steps: int, seed: int) -> None:
    state, _ = random_state(SearchConfig(islands=2, population=20), steps, seed)
    for island in state.archive.islands:
        chosen = select(island, stream(seed, "x"), SelectionConfig(name=name))
        assert island.members[chosen.id] == chosen
        assert select(island, stream(seed, "x"), SelectionConfig(name=name)) == chosen


def test_an_empty_island_has_nothing_to_select() -> None:
    with pytest.raises(ValueError, match="island 3 has no members"):
        select(Island(3, 5, 5), random.Random(0), SelectionConfig())


def test_power_law_follows_its_exponent() -> None:
    island = island_of([i / 100 for i in range(20)])
    flat = drawn(island, SelectionConfig(name="power_law", power=0.0), 20_000)
    assert max(flat.values()) < 1.3 * min(flat.values()) and len(flat) == 20
    law = drawn(island, SelectionConfig(name="power_law", power=2.0), 20_000)
    assert law[0] / law[1] == pytest.approx((1 - 1 / 2) / (1 / 2 - 1 / 3), rel=0.1)
    steep = drawn(island, SelectionConfig(name="power_law", power=20.0))
    assert steep[0] > 3900


def test_mix_honours_its_shares() -> None:
    island = island_of([i / 100 for i in range(50)])
    always = SelectionConfig(elite=1.0, explore=0.0)
    assert drawn(island, always)[0] == 4000
    by_law = drawn(island, SelectionConfig(elite=0.0, explore=0.0, power=0.0))
    assert len(by_law) == 50
    state, _ = random_state(SearchConfig(islands=1, population=200, bins=6), 300, 5)
    cells = state.archive.islands[0]
    explored = Counter(
        select(cells, stream(1, i), SelectionConfig(elite=0.0, explore=1.0)).id for i in range(200 * len(cells.cells))
    )
    assert set(explored) == {elite.id for elite in cells.elites.values()}
    assert max(explored.values()) < 1.6 * min(explored.values())
    with pytest.raises(ConfigError, match=r"elite \+ explore = 1.5 is over 1"):
        parse(SelectionConfig, {"elite": 1.0, "explore": 0.5}, where="test")


def test_tournament_presses_harder_when_larger() -> None:
    island = island_of([i / 100 for i in range(20)])
    shares = [drawn(island, SelectionConfig(name="tournament", tournament=k))[0] / 4000 for k in (1, 4, 16)]
    assert shares[0] == pytest.approx(1 / 20, abs=0.02)
    assert shares[1] == pytest.approx(1 - (19 / 20) ** 4, abs=0.03)
    assert shares[2] == pytest.approx(1 - (19 / 20) ** 16, abs=0.03)


def test_ucb_tree_leaves_a_parent_whose_children_disappoint() -> None:
    config = SelectionConfig(name="ucb_tree", exploration=2.0)
    state = State(SearchConfig(islands=1, population=100, bins=1), {})
    for step, fitness in enumerate([0.9, 0.85, 0.1]):
        state.apply(candidate(step, fitness, parent=0 if step else None))
    island = state.archive.islands[0]
    seen: Counter[int] = Counter()
    for step in range(3, 60):
        parent = int(select(island, random.Random(0), config).id, 16)
        seen[parent] += 1
        state.apply(candidate(step, None, parent=parent))
    assert min(seen[0], seen[1]) > 10


def test_ucb_tree_backs_a_childs_success_up_to_its_ancestors() -> None:
    state = State(SearchConfig(islands=1, population=100, bins=1), {})
    for step, (fitness, parent) in enumerate([(0.5, None), (0.4, 0), (0.3, 1), (0.95, 2)]):
        state.apply(candidate(step, fitness, parent=parent))
    island = state.archive.islands[0]
    assert island.backed_up == {program_id(s): 0.95 for s in (0, 1, 2)}
    assert island.visits == {program_id(0): 3, program_id(1): 2, program_id(2): 1}


@given(st.integers(0, 40), st.integers(0, 3), st.integers(0, 10**6))
@settings(max_examples=60, deadline=None)
def test_inspirations_are_other_members_without_repeats(steps: int, count: int, seed: int) -> None:
    state, _ = random_state(SearchConfig(islands=1, population=30), steps + 1, seed)
    island = state.archive.islands[0]
    parent = island.at(0).id
    shown = inspire(island, parent, stream(seed), count)
    assert len(shown) == len(set(shown)) <= count
    assert parent not in shown and set(shown) <= set(island.members)
    if len(island) > 1 and count:
        assert shown[0] == island.at(1).id
    other = partner(island, parent, stream(seed), SelectionConfig())
    assert (other is None) == (len(island) == 1) and other != parent


def test_the_second_inspiration_is_the_most_different() -> None:
    near, far = tuple(range(10)), tuple(range(100, 110))
    state = State(SearchConfig(islands=1, bins=1), {})
    for step, sketch in enumerate([near, near, near, far]):
        state.apply(candidate(step, 1.0 - step / 10, parent=0 if step else None, sketch=sketch))
    found = Counter(inspire(state.archive.islands[0], program_id(0), stream(i), 2) for i in range(200))
    assert found.most_common(1)[0][0] == (program_id(1), program_id(3))
