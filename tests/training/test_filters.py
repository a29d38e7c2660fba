"""Group filters as folds, and the entropy floor."""

import json
import math
import random
from statistics import NormalDist, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coevo.training.entropy import EntropyState, coefficient, floor_at, observe
from coevo.training.filters import FilterState, decide, deviation, separation
from coevo.training.settings import EntropyConfig, FilterConfig

GROUPS = st.lists(st.lists(st.one_of(st.none(), st.floats(-5, 5)), max_size=6), max_size=8)
NAMES = ("none", "zero_spread", "ema_threshold", "snr", "top_uncertain")


def kept(groups, state=None, **config):
    return list(decide(FilterConfig(**config), state or FilterState(), groups).kept)


@given(GROUPS, st.sampled_from(NAMES), st.integers(0, 50), st.floats(0, 3), st.floats(0, 2))
def test_every_filter_answers_for_every_group_and_never_keeps_a_dead_one(groups, name, rounds, mean, variance):
    decision = decide(FilterConfig(name=name), FilterState(rounds, mean, variance), groups)
    assert len(decision.kept) == len(decision.reasons) == len(groups)
    assert all(bool(reason) != keep for keep, reason in zip(decision.kept, decision.reasons, strict=True))
    for group, keep in zip(groups, decision.kept, strict=True):
        known = [r for r in group if r is not None]
        if name != "none" and (len(known) < 2 or max(known) == min(known)):
            assert not keep
    assert FilterState.from_dict(json.loads(json.dumps(decision.state.to_dict()))) == decision.state


@pytest.mark.parametrize("name", NAMES[1:])
@pytest.mark.parametrize("value", [1.0 + 0.2, 0.2, 1 / 3, 0.7, 0.95])
def test_equal_rewards_are_dead_whatever_rounding_says(name, value):
    """Of these, TRL 1.16 counts none as dead: the rounded deviation of eight equal numbers need not be 0."""
    group = [value] * 4 + [value + 1e-12] * 4
    assert kept([group, [0.0, 1.0] * 4], name=name, share=1.0) == [False, True]


def test_zero_spread_takes_its_bound_from_the_recipe():
    assert kept([[0.0, 0.05], [0.0, 0.2]], spread=0.1) == [False, True]
    assert kept([[1000.0, 1000.0005]], spread=1e-6) == [False]


def test_none_keeps_dead_groups_too():
    assert kept([[1.0, 1.0], []], name="none") == [True, True]


def deviating(spread):
    """Two rewards whose sample deviation is `spread`."""
    return [0.0, spread * math.sqrt(2)]


def test_ema_threshold_waits_for_its_warm_up_then_drops_the_flattest():
    config, state = FilterConfig(name="ema_threshold"), FilterState()
    rng = random.Random(0)
    for round_ in range(21):
        groups = [deviating(1 + rng.uniform(-0.1, 0.1)) for _ in range(8)] + [deviating(0.05)]
        decision = decide(config, state, groups)
        assert decision.kept[-1] is (round_ < 20)
        state = decision.state
    assert state.rounds == 21


def test_a_slow_memory_warms_up_for_longer():
    config, state = FilterConfig(name="ema_threshold", decay=0.02), FilterState(49, 1.0, 0.01)
    assert kept([deviating(0.1), deviating(1.0)], state, **config.model_dump()) == [True, True]
    assert kept([deviating(0.1), deviating(1.0)], FilterState(50, 1.0, 0.01), **config.model_dump()) == [False, True]


def test_ema_threshold_is_mean_less_z_deviations():
    z = NormalDist().inv_cdf(0.9)
    assert z == pytest.approx(1.28, abs=2e-3)
    edge = 1.0 - z * 0.2
    groups = [deviating(edge - 0.01), deviating(edge + 0.01), deviating(1), deviating(1)]
    assert kept(groups, FilterState(30, 1.0, 0.04), name="ema_threshold") == [False, True, True, True]
    assert kept(groups, FilterState(30, 1.0, 0.04), name="ema_threshold", keep=1.0) == [True] * 4


def test_the_floor_keeps_the_best_of_a_flat_round():
    groups = [deviating(0.1 * (i + 1)) for i in range(6)] + [[1.0, 1.0]]
    state = FilterState(30, 100.0, 1e-6)
    assert kept(groups, state, name="ema_threshold", floor=0.5) == [False] * 3 + [True] * 3 + [False]
    assert kept(groups, state, name="ema_threshold", floor=0.0) == [False] * 7


def test_ema_threshold_keeps_about_the_share_it_aims_at():
    config, state, rng = FilterConfig(name="ema_threshold", keep=0.8, decay=0.05), FilterState(), random.Random(1)
    shares = []
    for _ in range(200):
        decision = decide(config, state, [deviating(max(0.01, rng.gauss(1, 0.2))) for _ in range(20)])
        state = decision.state
        shares.append(sum(decision.kept) / 20)
    assert sum(shares[50:]) / 150 == pytest.approx(0.8, abs=0.03)


@given(st.lists(st.lists(st.floats(0.1, 5), min_size=1, max_size=5), min_size=1, max_size=12), st.floats(0.05, 1))
def test_the_memory_is_the_exponential_mixture_of_rounds(rounds, decay):
    state = FilterState()
    for spreads in rounds:
        state = decide(FilterConfig(name="ema_threshold", decay=decay), state, [deviating(s) for s in spreads]).state
    weights = [(decay if i else 1.0) * (1 - decay) ** (len(rounds) - 1 - i) for i in range(len(rounds))]
    points = [(w / len(r), s) for w, r in zip(weights, rounds, strict=True) for s in r]
    mean = sum(w * s for w, s in points)
    assert sum(w for w, _ in points) == pytest.approx(1)
    assert state.mean == pytest.approx(mean)
    assert state.variance == pytest.approx(sum(w * (s - mean) ** 2 for w, s in points), abs=1e-9)


def test_top_uncertain_keeps_the_widest_quarter_of_live_groups():
    groups = [deviating(s) for s in (0.3, 0.9, 0.1, 0.5)] + [[1.0, 1.0]] * 4
    assert kept(groups, name="top_uncertain", share=0.25) == [False, True] + [False] * 6
    assert kept(groups, name="top_uncertain", share=0.3) == [False, True, False, True] + [False] * 4


def test_signal_to_noise_tells_two_outcomes_from_jitter():
    jitter = [0.7 + 0.01 * x for x in (0.3, -1.1, 0.8, 0.1, -0.5, 1.2, -0.2, 0.6)]
    outcomes = [0.70, 0.71, 0.69, 0.70, 0.90, 0.91, 0.89, 0.90]
    wide_jitter = [3 * r for r in jitter]
    assert kept([jitter, outcomes, wide_jitter], name="snr", share=0.3) == [False, True, False]


@given(st.lists(st.floats(-5, 5), min_size=2, max_size=8))
def test_separation_is_a_share_and_whole_for_two_levels(values):
    assert 0 <= separation(values) <= 1
    assert deviation(values) == pytest.approx(stdev(values), abs=1e-9)
    assert separation([0.0, 1.0, 1.0]) == pytest.approx(1.0)


def test_separation_of_normal_rewards_is_two_over_pi():
    rng = random.Random(3)
    assert separation([rng.gauss(0, 1) for _ in range(20_000)]) == pytest.approx(2 / math.pi, abs=0.01)


def test_the_entropy_floor_is_silent_above_and_proportional_below():
    config = EntropyConfig(floor=0.5, coefficient=0.1)
    assert coefficient(config, EntropyState(), 1, 10) == 0
    assert coefficient(config, EntropyState(0.6), 1, 10) == 0
    assert coefficient(config, EntropyState(0.25), 1, 10) == pytest.approx(0.05)
    assert coefficient(config, EntropyState(0.0), 1, 10) == pytest.approx(0.1)
    assert coefficient(EntropyConfig(), EntropyState(0.0), 1, 10) == 0


def test_the_floor_moves_linearly_to_its_end():
    config = EntropyConfig(floor=1.0, final=0.2)
    assert [floor_at(config, step, 5) for step in range(1, 6)] == pytest.approx([1.0, 0.8, 0.6, 0.4, 0.2])
    assert floor_at(config, 9, 5) == pytest.approx(0.2)
    assert floor_at(config, 1, 1) == pytest.approx(0.2)
    assert floor_at(EntropyConfig(floor=1.0), 3, 5) == 1.0


@given(st.lists(st.floats(0, 5), min_size=1, max_size=20))
def test_the_mean_entropy_stays_within_what_was_seen(entropies):
    state = EntropyState()
    for entropy in entropies:
        state = observe(state, entropy)
    assert state.mean is not None
    assert min(entropies) - 1e-9 <= state.mean <= max(entropies) + 1e-9
    assert EntropyState.from_dict(json.loads(json.dumps(state.to_dict()))) == state
