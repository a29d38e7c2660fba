"""What a reward sees of a turn: compared with the best so far, and nothing hidden in it."""

from dataclasses import replace

import pytest

from coevo.episodes.running import run_episodes
from coevo.episodes.samples import samples_of
from coevo.episodes.standing import best_turn, is_perfect
from coevo.episodes.types import EpisodeConfig
from coevo.errors import UsageError
from coevo.evolution.types import Attempt, Edit
from coevo.programs import Program
from tests.episodes.stage import START, CountingPool, TablePolicy, fenced, ramp_task, starts_of, state_of, upto

CONFIG = EpisodeConfig(name="refine", rounds=4, max_tokens=600)
REPLIES = [fenced(upto(2)), fenced(upto(1)), "No code.", fenced(upto(3))]
HASHES = [Program.of(upto(k)).id for k in (2, 1)]


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    return ramp_task(tmp_path_factory.mktemp("tasks") / "ramp3")


def episode(task, state, replies=REPLIES, config=CONFIG):
    with CountingPool([task]) as pool:
        policy = TablePolicy(lambda _t, _s, call: replies[call])
        starts = starts_of(state, 1)
        return run_episodes(policy, starts, config, pool=pool, tasks={task.name: task}, seed=0, step=0)[0]


def test_each_turn_is_compared_with_the_best_so_far(task):
    old = Attempt(Program.of(upto(0)), 0.0)
    state = state_of(task, fitness=0.25, history=(old,), known=frozenset({"k"}))
    rollout = episode(task, state)
    samples = samples_of(rollout, max_tokens=600)
    assert [s.fitness for s in samples] == [0.5, 0.25, None, 0.75]
    assert [s.parent_fitness for s in samples] == [0.25, 0.5, 0.5, 0.5]
    assert [s.parent_hash for s in samples] == [START.id, HASHES[0], HASHES[0], HASHES[0]]
    assert [s.contract_ok for s in samples] == [True, True, False, True]
    assert [s.rejection for s in samples] == ["", "", "no_code", ""]
    assert [s.turn for s in samples] == [0, 1, 2, 3]
    assert samples[0].outcomes == (True, True, False, False) and samples[2].outcomes == ()
    assert samples[0].history == {old.program.id} and samples[3].history == {old.program.id, HASHES[1]}
    assert all(s.known == {"k"} and s.max_tokens == 600 and not s.truncated for s in samples)
    assert samples[0].source == upto(2) and samples[0].text == REPLIES[0] and samples[0].tokens > 10
    gains = sum(max(0.0, s.fitness - s.parent_fitness) for s in samples if s.fitness is not None)
    assert gains == pytest.approx(0.75 - 0.25), "gains over the best so far add up to the episode's"
    best = best_turn(rollout.turns)
    assert best is rollout.turns[3] and best.judged.hidden.fitness == 0.75
    assert best_turn(rollout.turns[1:3]) is rollout.turns[1] and best_turn(rollout.turns[2:3]) is rollout.turns[2]
    assert best_turn(()) is None


def test_from_the_statement_alone_there_is_no_parent_to_copy(task):
    samples = samples_of(episode(task, state_of(task, fitness=0.25, style=Edit.WRITE)), max_tokens=600)
    assert [s.parent_fitness for s in samples] == [0.25, 0.5, 0.5, 0.5]
    assert [s.parent_hash for s in samples] == ["", HASHES[0], HASHES[0], HASHES[0]]
    unknown = samples_of(episode(task, state_of(task, fitness=None, style=Edit.WRITE)), max_tokens=600)
    assert unknown[0].parent_fitness == 0.0


def test_nothing_hidden_reaches_a_sample(task):
    rollout = episode(task, state_of(task))
    blind = replace(
        rollout, turns=tuple(replace(t, judged=replace(t.judged, hidden=None)) for t in rollout.turns), truth=False
    )
    assert samples_of(rollout, max_tokens=600) == samples_of(blind, max_tokens=600)


def test_an_unmeasured_rollout_is_no_sample(task):
    with pytest.raises(UsageError, match="is unmeasured: a worker died"):
        samples_of(replace(episode(task, state_of(task)), unmeasured="a worker died"), max_tokens=600)


def test_only_all_tests_passed_is_perfect(task):
    attempt = Attempt(START, 1.0, 1.0)
    timed = replace(attempt, fitness=0.85)
    assert is_perfect(task.config, attempt)
    assert not any(is_perfect(task.config, a) for a in (timed, replace(attempt, fitness=None), None))
