"""Advantages: agreement with enumeration, and the algebra that every method owes."""

import math
from itertools import combinations, pairwise
from statistics import mean, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coevo.errors import UsageError
from coevo.training.advantages import advantages, best_of_k, is_dead
from coevo.training.settings import AdvantageConfig

REWARD = st.one_of(st.sampled_from([-1.0, 0.0, 0.2, 1 / 3, 1.0]), st.floats(-10, 10))
GROUP = st.lists(REWARD, min_size=2, max_size=8)
CENTRED = ("group_mean", "group_zscore", "per_turn", "best_of_k")


def of(rewards, parents=None, **config):
    found = advantages([[r] for r in rewards], AdvantageConfig(**config), parents=parents)
    return [row[0] for row in found]


def enumerated(values, k):
    """`best_of_k` by its definition."""
    found = []
    for i, value in enumerate(values):
        others = [v for j, v in enumerate(values) if j != i]
        containing = [max(value, *subset) if subset else value for subset in combinations(others, k - 1)]
        without = [max(subset) for subset in combinations(others, min(k, len(others)))]
        found.append(mean(containing) - mean(without))
    return found


@given(GROUP, st.data())
def test_best_of_k_is_what_enumeration_gives(values, data):
    k = data.draw(st.integers(1, len(values)))
    assert best_of_k(values, k) == pytest.approx(enumerated(values, k), abs=1e-9)


@given(GROUP, st.data())
def test_best_of_k_gives_equal_values_equal_credit_and_keeps_order(values, data):
    k = data.draw(st.integers(1, len(values)))
    credit = dict(zip(values, best_of_k(values, k), strict=True))
    assert best_of_k(values, k) == [credit[v] for v in values]
    ranked = sorted(credit)
    assert all(credit[low] <= credit[high] + 1e-9 for low, high in pairwise(ranked))


@given(GROUP)
def test_best_of_one_is_the_difference_from_the_mean_of_the_others(values):
    n, total = len(values), math.fsum(values)
    assert best_of_k(values, 1) == pytest.approx([v - (total - v) / (n - 1) for v in values], abs=1e-9)


@given(GROUP, st.data())
def test_best_of_k_adds_up_to_zero_below_n(values, data):
    k = data.draw(st.integers(1, len(values) - 1))
    assert math.fsum(best_of_k(values, k)) == pytest.approx(0, abs=1e-9)


def test_best_of_n_is_the_margin_of_the_best_over_the_second():
    assert best_of_k([0.1, 0.7, 0.4], 3) == pytest.approx([0.0, 0.3, 0.0])


def test_a_rare_success_outweighs_a_common_one_only_with_k_above_one():
    rare, common = best_of_k([0, 0, 0, 0, 0, 0, 0, 1], 4), best_of_k([0, 0, 0, 0, 1, 1, 1, 1], 4)
    assert rare[-1] == pytest.approx(1.0)
    assert common[-1] < 0.05


def test_best_of_k_is_exact_for_large_groups():
    values = [math.sin(i) for i in range(600)]
    found = best_of_k(values, 64)
    assert math.fsum(found) == pytest.approx(0, abs=1e-9)
    assert max(found) == found[values.index(max(values))]
    with pytest.raises(UsageError, match="best of 5 among 4"):
        best_of_k([0, 1, 2, 3], 5)


@given(GROUP)
def test_the_others_by_their_formulas(values):
    assert of(values, name="raw") == values
    if is_dead(values):
        return
    centred = [v - mean(values) for v in values]
    assert of(values, name="group_mean") == pytest.approx(centred, abs=1e-12)
    assert of(values, name="group_zscore") == pytest.approx([c / stdev(values) for c in centred], rel=1e-6, abs=1e-9)


@given(GROUP, st.sampled_from(CENTRED), st.floats(-3, 3))
def test_a_constant_of_the_group_changes_nothing(values, name, shift):
    """So `absolute` and `difference` on one parent are the same objective under any group baseline."""
    # Bounded away from the edge at which a group counts as dead.
    if max(values) - min(values) < 1e-3:
        return
    moved = of([v + shift for v in values], name=name, k=2)
    assert moved == pytest.approx(of(values, name=name, k=2), abs=1e-6)


@pytest.mark.parametrize("name", CENTRED)
@pytest.mark.parametrize("value", [1.0 + 0.2, 0.2, 1 / 3, 0.7, 0.95, -1.0, 0.1 + 0.2, 123456.7])
@pytest.mark.parametrize("size", [1, 2, 3, 6, 7, 8, 16])
def test_dead_groups_give_exactly_zero(name, value, size):
    assert of([value] * size, name=name) == [0.0] * size
    jitter = [value + (1e-13 * i) for i in range(size)]
    assert of(jitter, name=name) == [0.0] * size


@given(GROUP, st.sampled_from([*CENTRED, "raw"]))
def test_masked_rewards_stand_in_no_baseline(values, name):
    with_holes = [None, *values, None]
    found = of(with_holes, name=name, k=2)
    assert found[0] is None and found[-1] is None
    assert found[1:-1] == of(values, name=name, k=2)


@given(GROUP, GROUP, st.sampled_from(CENTRED))
def test_only_children_of_one_parent_are_compared(first, second, name):
    mixed = [r for pair in zip(first, second, strict=False) for r in pair]
    parents = ["a", "b"] * (len(mixed) // 2)
    found = of(mixed, parents, name=name, k=2)
    shared = min(len(first), len(second))
    assert found[::2] == of(first[:shared], name=name, k=2)
    assert found[1::2] == of(second[:shared], name=name, k=2)


def test_an_only_child_has_nothing_to_be_compared_with():
    assert of([5.0, 1.0, 2.0], ["a", "b", "b"], name="group_mean") == [0.0, -0.5, 0.5]


def test_all_masked_and_empty_groups():
    assert of([None, None]) == [None, None]
    assert advantages([], AdvantageConfig()) == []


def test_scale_is_a_factor():
    assert of([0, 1], name="group_mean", scale=3.0) == [-1.5, 1.5]


def test_parents_must_be_as_many_as_rollouts():
    with pytest.raises(UsageError, match="1 parents for 2 rollouts"):
        advantages([[0.0], [1.0]], AdvantageConfig(), parents=["a"])


def turns(rewards, **config):
    return advantages(rewards, AdvantageConfig(**config))


def test_step_returns_are_discounted_later_rewards():
    assert turns([[1.0, 0.0, 4.0]], name="raw", discount=0.5) == [[2.0, 2.0, 4.0]]
    assert turns([[1.0, 0.0, 4.0]], name="raw", discount=0.0) == [[1.0, 0.0, 4.0]]


def test_episode_returns_are_sums_and_count_once_in_the_baseline():
    found = turns([[1.0, 1.0, 1.0], [1.0]], name="group_mean", returns="episode")
    assert found == [[1.0, 1.0, 1.0], [-1.0]]


def test_per_turn_compares_equal_turns_alone():
    found = turns([[0.0, 5.0], [1.0, 7.0], [2.0]], name="per_turn", discount=0.0)
    assert found == [[-1.0, -1.0], [0.0, 1.0], [1.0]]


def test_a_masked_turn_hides_the_returns_that_need_it():
    assert turns([[1.0, None, 3.0]], name="raw", discount=1.0) == [[None, None, 3.0]]
    assert turns([[1.0, None, 3.0]], name="raw", discount=0.0) == [[1.0, None, 3.0]]
    assert turns([[1.0, None]], name="raw", returns="episode") == [[None, None]]


@given(GROUP, st.sampled_from([*CENTRED, "raw"]), st.floats(0.1, 10))
def test_unit_makes_the_largest_advantage_one_and_keeps_proportions(values, name, scale):
    plain, unit = of(values, name=name, k=2), of(values, name=name, k=2, unit=True, scale=scale)
    largest = max(map(abs, plain))
    assert unit == pytest.approx([scale * a / largest if largest else 0.0 for a in plain])
    assert max(map(abs, unit)) == pytest.approx(scale if largest else 0.0)
