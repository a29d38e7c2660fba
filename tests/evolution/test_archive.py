"""The archive as a fold: caps, cells, islands, migration, and the best so far."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coevo.config import parse
from coevo.errors import ConfigError
from coevo.evaluation.types import Outcome
from coevo.evolution.records import Candidate, Summary
from coevo.evolution.settings import SearchConfig
from coevo.evolution.state import State
from coevo.evolution.types import Edit
from tests.evolution.build import candidate, program_id, random_state

configs = st.builds(
    lambda islands, extra, bins, twins, migrate, novelty: SearchConfig(
        novelty=novelty,
        islands=islands,
        population=islands + extra,
        bins=bins,
        per_structure=twins,
        migrate_every=migrate,
        batch=4,
    ),
    st.integers(1, 4),
    st.integers(0, 30),
    st.integers(1, 6),
    st.integers(1, 4),
    st.integers(0, 3),
    st.sampled_from([0.0, 0.8, 1.0]),
)


@given(configs, st.integers(0, 120), st.integers(0, 10**6))
@settings(max_examples=60, deadline=None)
def test_caps_cells_and_indexes_hold_after_every_prefix(config: SearchConfig, steps: int, seed: int) -> None:
    state, applied = random_state(config, steps, seed)
    again = State(config, {})
    for child in applied:
        again.apply(child)
        assert len(again.archive) <= config.population
        for island in again.archive.islands:
            assert len(island) <= island.capacity
            assert sorted(island.ranked) == island.ranked
            assert {key[2] for key in island.ranked} == set(island.members)
            by_cell: dict[tuple[int, ...], list] = {}
            for member in island.members.values():
                by_cell.setdefault(member.cell, []).append(member)
            assert set(by_cell) == set(island.elites) == set(island.cells)
            for cell, members in by_cell.items():
                assert min(members, key=lambda m: m.rank_key) == island.elites[cell]
            assert set(island.visits) <= set(island.members)
    assert [m.id for i in again.archive.islands for m in map(i.at, range(len(i)))] == [
        m.id for i in state.archive.islands for m in map(i.at, range(len(i)))
    ]


@given(configs, st.integers(0, 10**6))
@settings(max_examples=40, deadline=None)
def test_best_so_far_is_monotone_and_stays_a_member(config: SearchConfig, seed: int) -> None:
    _, applied = random_state(config, 80, seed)
    state, best = State(config, {}), -1.0
    for child in applied:
        state.apply(child)
        if child.scored:
            assert child.evaluation is not None and child.evaluation.fitness is not None
            best = max(best, child.evaluation.fitness)
        if state.archive.best is not None:
            assert state.archive.best.fitness == best
            assert any(state.archive.best.id in island.members for island in state.archive.islands)


@given(configs, st.integers(0, 10**6))
@settings(max_examples=40, deadline=None)
def test_an_elite_leaves_its_cell_only_for_a_better_one(config: SearchConfig, seed: int) -> None:
    _, applied = random_state(config, 80, seed)
    state = State(config, {})
    before: list[dict] = [{} for _ in state.archive.islands]
    for child in applied:
        state.apply(child)
        for island, cells in zip(state.archive.islands, before, strict=True):
            for cell, elite in cells.items():
                assert island.elites[cell].rank_key <= elite.rank_key
            cells.update(island.elites)


def test_population_of_one_holds_exactly_the_best() -> None:
    state = State(SearchConfig(islands=1, population=1), {})
    for step, fitness in enumerate([0.5, 0.2, 0.9, 0.7, None]):
        state.apply(candidate(step, fitness, parent=0 if step else None))
        assert len(state.archive) == 1
    assert [m.id for m in state.archive.members()] == [program_id(2)]


def test_population_below_islands_is_refused() -> None:
    with pytest.raises(ConfigError, match="population = 3 is fewer than islands = 4"):
        parse(SearchConfig, {"population": 3, "islands": 4}, where="test")


def test_full_population_uses_its_whole_share() -> None:
    state, _ = random_state(SearchConfig(islands=3, population=50, per_structure=50), 600, 1)
    assert [len(island) for island in state.archive.islands] == [17, 17, 16]


def test_without_migration_each_islands_ancestry_is_a_tree_of_its_own() -> None:
    state, applied = random_state(SearchConfig(islands=4, population=80, migrate_every=0), 400, 7, failures=0.0)
    home = {child.program: child.decision.island for child in applied[1:]}
    for island in state.archive.islands:
        for member in island.members.values():
            assert not member.migrant
            assert member.step == 0 or home[member.id] == island.index
            assert member.step == 0 or member.parent == program_id(0) or home[member.parent] == island.index
    assert state.archive.migrations == 0


def test_every_island_gets_its_share_of_steps_and_the_start() -> None:
    state, applied = random_state(
        SearchConfig(islands=4, population=4000, per_structure=4000, migrate_every=0), 401, 3, failures=0
    )
    counts = [sum(c.decision.island == i for c in applied[1:]) for i in range(4)]
    assert counts == [100] * 4
    for island in state.archive.islands:
        assert program_id(0) in island.members


def test_migration_happens_only_when_scheduled_and_goes_around_the_ring() -> None:
    config = SearchConfig(islands=3, population=300, migrate_every=2, batch=5, migrants=1)
    state, applied = random_state(config, 51, 11, failures=0.0)
    assert state.archive.migrations == 5
    seen_before = State(config, {})
    for child in applied:
        best = [i.best.id if i.best else None for i in seen_before.archive.islands]
        migrations = seen_before.archive.migrations
        members = [set(i.members) for i in seen_before.archive.islands]
        seen_before.apply(child)
        if seen_before.archive.migrations == migrations:
            for island, had in zip(seen_before.archive.islands, members, strict=True):
                new = set(island.members) - had
                assert new <= {child.program}
        elif child.decision.island != 0:
            assert best[0] in seen_before.archive.islands[1].members


def test_failures_are_remembered_but_never_members() -> None:
    state = State(SearchConfig(islands=1), {})
    state.apply(candidate(0, 0.5))
    for step in range(1, 30):
        state.apply(candidate(step, None, parent=0))
    assert len(state.archive) == 1
    assert list(state.archive.islands[0].failures) == [program_id(s) for s in range(22, 30)]
    assert list(state.archive.attempts[program_id(0)]) == [program_id(s) for s in range(26, 30)]
    assert state.archive.best is not None and state.archive.best.id == program_id(0)


def test_a_failed_start_is_kept_to_begin_from() -> None:
    state = State(SearchConfig(islands=2), {})
    state.apply(candidate(0, None))
    assert state.archive.start is not None and len(state.archive) == 0
    assert not state.archive.islands[0].failures


def test_duplicates_and_unmeasured_programs_change_no_population() -> None:
    state = State(SearchConfig(islands=1), {})
    state.apply(candidate(0, 0.5))
    state.apply(candidate(1, 0.9, parent=0, program=0, duplicate=True))
    lost = candidate(2, 0.9, parent=0)
    state.apply(
        Candidate(lost.decision, program=lost.program, traits=lost.traits, evaluation=Summary(Outcome.UNMEASURED))
    )
    assert len(state.archive) == 1 and state.stalled == 2
    assert state.first_seen(program_id(2)) is None and state.first_seen(program_id(0)) == 0


def test_one_structure_cannot_crowd_out_an_island() -> None:
    state = State(SearchConfig(islands=1, population=50, per_structure=3, bins=1), {})
    state.apply(candidate(0, 0.1, structure="start"))
    for step in range(1, 30):
        state.apply(candidate(step, 0.1 + step / 100, parent=0, structure="clone"))
    kept = [m for m in state.archive.members() if m.structure == "clone"]
    assert [m.step for m in sorted(kept, key=lambda m: m.rank_key)] == [29, 28, 27]


def test_a_near_copy_replaces_what_it_betters_and_is_not_kept_otherwise() -> None:
    config = SearchConfig(islands=1, novelty=0.5, bins=1)
    start, near, far = tuple(range(10)), (*range(9), 99), tuple(range(50, 60))
    state = State(config, {})
    state.apply(candidate(0, 0.5, sketch=start))
    state.apply(candidate(1, 0.4, parent=0, sketch=near))
    assert [m.step for m in state.archive.members()] == [0]
    state.apply(candidate(2, 0.6, parent=0, sketch=near))
    assert [m.step for m in state.archive.members()] == [2]
    state.apply(candidate(3, 0.1, parent=2, sketch=far))
    assert [m.step for m in state.archive.members()] == [2, 3]


def test_steps_must_commit_in_order() -> None:
    state = State(SearchConfig(), {})
    with pytest.raises(ValueError, match="step 1 cannot follow 0 commits"):
        state.apply(candidate(1, 0.5))


def test_attempts_of_vanished_parents_are_forgotten() -> None:
    state = State(SearchConfig(islands=1, population=5), {})
    state.apply(candidate(0, 0.0))
    for step in range(1, 2000):
        state.apply(candidate(step, step / 2000, parent=step - 1))
    assert len(state.archive.attempts) <= 64 + 4 * 5 + 1


@given(st.integers(0, 500))
def test_records_survive_the_run_store(step: int) -> None:
    from coevo.evolution.types import Rejection

    full = candidate(
        step, 0.25, parent=3, edit=Edit.REWRITE, tokens=7, usd=0.5, asked={"evaluations": 1}, charged={"evaluations": 1}
    )
    rejected = Candidate(full.decision, rejection=Rejection.NO_MATCH, detail="no such line", charged={"evaluations": 0})
    for record in (full, rejected):
        back = Candidate.from_dict(step, record.to_dict())
        assert back.to_dict() == record.to_dict()
        assert back.decision == record.decision and back.traits == record.traits and back.detail == record.detail
