"""The timing statistics, on times drawn from a model of a shared machine."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coevo.evaluation.efficiency import EfficiencyConfig, Speed, enough, is_tie

CONFIG = EfficiencyConfig()
times = st.lists(st.tuples(st.floats(1e-3, 10), st.floats(1e-3, 10)), min_size=2, max_size=12)


def measured(true_reference: float, true_candidate: float, rng: random.Random) -> Speed:
    """Pairs until there are enough. Noise only adds: mostly a little, sometimes a lot, and it comes in spells."""
    speed, spell = Speed((), ()), 0.0
    while not enough(speed, CONFIG):
        spell = 0.7 * spell + (rng.random() < 0.2) * rng.expovariate(10)
        noisy = [t * (1 + spell + rng.expovariate(40)) for t in (true_reference, true_candidate)]
        speed = Speed((*speed.reference, noisy[0]), (*speed.candidate, noisy[1]))
    return speed


def test_ten_per_cent_is_seen_through_noise() -> None:
    rng = random.Random(1)
    right = sum(measured(0.030, 0.030, rng).ratio > measured(0.030, 0.033, rng).ratio for _ in range(400))
    assert right >= 380


def test_equal_programs_tie() -> None:
    rng = random.Random(2)
    ties = sum(measured(0.030, 0.030, rng).speedup(CONFIG.tie) == 1 for _ in range(400))
    assert ties >= 390


def test_ratio_of_minima_and_what_leaving_one_out_moves() -> None:
    speed = Speed((2.0, 1.0, 1.5), (4.0, 3.0, 2.0))
    assert speed.ratio == 0.5
    # without the reference's 1.0: 1.5 / 2.0; without the candidate's 2.0: 1.0 / 3.0
    e = [r / (1 + r) for r in (0.5, 0.75, 1 / 3)]
    assert speed.spread == pytest.approx(max(abs(e[1] - e[0]), abs(e[2] - e[0])))
    assert Speed((1.0,), (1.0,)).spread == float("inf")


def test_when_to_stop() -> None:
    steady = lambda n, ratio=1.0: Speed((ratio,) * n, (1.0,) * n)  # noqa: E731
    assert not enough(steady(4), CONFIG)
    assert enough(steady(5), CONFIG)
    assert enough(steady(2, 0.1), CONFIG)  # ten times slower: two pairs that agree are enough
    assert not enough(steady(2, 10.0), CONFIG)
    shaky = Speed((1.0, 1.1, 1.2, 1.3, 1.4), (1.0, 1.1, 1.2, 1.3, 1.4))
    assert not enough(shaky, CONFIG)
    assert enough(shaky, EfficiencyConfig(max_pairs=5))
    assert enough(Speed((40.0,), (30.0,)), CONFIG)  # the CPU allowance is gone


@pytest.mark.parametrize(
    ("ratio", "tie"), [(1.0, True), (0.96, True), (1.04, True), (0.94, False), (1.06, False), (0.0, False)]
)
def test_ties(ratio: float, tie: bool) -> None:
    assert is_tie(ratio, 0.05) is tie


@settings(deadline=None)
@given(times)
def test_swapping_sides_inverts_the_ratio_and_extra_pairs_never_raise_a_minimum(pairs) -> None:
    reference, candidate = zip(*pairs, strict=True)
    speed, swapped = Speed(reference, candidate), Speed(candidate, reference)
    assert speed.ratio == pytest.approx(1 / swapped.ratio)
    assert speed.spread == pytest.approx(swapped.spread, abs=1e-12)
    assert min(speed.candidate) <= min(candidate[:-1])


@settings(deadline=None)
@given(times, st.floats(0.1, 10))
def test_a_change_of_machine_speed_cancels(pairs, factor: float) -> None:
    reference, candidate = zip(*pairs, strict=True)
    slower = Speed(tuple(t * factor for t in reference), tuple(t * factor for t in candidate))
    assert slower.ratio == pytest.approx(Speed(reference, candidate).ratio)
