"""The diversity filter and the start mix."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coevo.errors import UsageError
from coevo.programs import Program
from coevo.trajectories.distances import combined, profile
from coevo.trajectories.mixing import Light, choose, start_mix
from coevo.trajectories.selection import problem_measure, select, worth_keeping
from coevo.trajectories.settings import DiversityConfig, MixConfig


def answer(source: str, fitness: float, *outcomes: str):
    return profile(Program.of(source), behaviour=outcomes, fitness=fitness)


GOOD = answer("def f(x):\n    return sorted(x)\n", 0.9, "passed", "passed")
TWIN = answer("def f(y):\n    return sorted(y)\n", 0.8, "passed", "passed")
OTHER = answer(
    "def f(x):\n    out = []\n    for v in x:\n        out.append(v)\n    return out\n", 0.4, "passed", "wrong"
)
ODD = answer("import math\nprint(math.pi)\n", 0.0, "crash", "crash")


def test_problem_level_measures() -> None:
    found = [GOOD, OTHER, ODD]
    assert problem_measure(DiversityConfig(measure="fitness_spread"), found, 3) == 0.9
    assert problem_measure(DiversityConfig(measure="programs"), found, 12) == 0.25
    assert problem_measure(DiversityConfig(measure="behaviour"), found, 3) == pytest.approx((0.5 + 1 + 1) / 3)
    assert problem_measure(DiversityConfig(measure="fitness_spread"), [GOOD], 9) == 0


@pytest.mark.parametrize(
    ("low", "high", "measure", "kept"),
    [
        (0.05, 1.0, "fitness_spread", True),
        (0.95, 1.0, "fitness_spread", False),
        (0.05, 0.5, "fitness_spread", False),
        (0.95, 1.0, "none", True),
    ],
)
def test_tasks_are_kept_within_the_interval(low: float, high: float, measure, kept: bool) -> None:
    config = DiversityConfig(measure=measure, low=low, high=high)
    assert worth_keeping(config, [GOOD, OTHER, ODD], 3) is kept


def test_the_best_comes_first_and_near_copies_go() -> None:
    found = select(DiversityConfig(nearest=0.3), [TWIN, OTHER, GOOD, ODD])
    assert found.kept[0] == 2
    assert found.too_near == 1 and 0 not in found.kept
    assert set(found.kept) == {1, 2, 3}


def test_farthest_refuses_what_has_nothing_to_do_with_the_rest() -> None:
    reach = combined(DiversityConfig().distances, GOOD, ODD)
    found = select(DiversityConfig(farthest=reach - 0.01), [GOOD, TWIN, ODD])
    assert found.too_far == 1 and 2 not in found.kept


def test_quality_weighs_against_distance() -> None:
    answers = [GOOD, answer("def f(x):\n    return sorted(x, key=abs)\n", 0.85, "passed", "passed"), ODD]
    assert select(DiversityConfig(quality=1.0, keep=2, nearest=0), answers).kept == (0, 1)
    assert select(DiversityConfig(quality=0.0, keep=2, nearest=0), answers).kept == (0, 2)


def test_weights_of_distances_choose_what_near_means() -> None:
    by_tree = DiversityConfig(distances={"tree": 1.0}, nearest=0.01)
    by_token = DiversityConfig(distances={"token": 1.0}, nearest=0.01)
    assert select(by_tree, [GOOD, TWIN]).too_near == 1
    assert select(by_token, [GOOD, TWIN]).too_near == 0


@given(st.lists(st.sampled_from([GOOD, TWIN, OTHER, ODD]), max_size=8), st.integers(1, 5), st.floats(0, 0.5))
def test_selection_accounts_for_every_answer(answers, keep: int, nearest: float) -> None:
    config = DiversityConfig(keep=keep, nearest=nearest)
    found = select(config, answers)
    assert len(found.kept) == len(set(found.kept)) <= keep
    assert len(found.kept) + found.too_near + found.too_far + found.too_many == len(answers)
    for i, a in enumerate(found.kept):
        for b in found.kept[:i]:
            assert combined(config.distances, answers[a], answers[b]) >= nearest


@given(st.floats(0, 1), st.integers(0, 300), st.integers(0, 300))
def test_the_start_mix_is_exact_and_the_largest(share: float, right: int, wrong: int) -> None:
    r, w = start_mix(share, right, wrong)
    assert r <= right and w <= wrong
    assert r == math.floor(share * (r + w) + 0.5)
    more = r + w + 1
    of_right = math.floor(share * more + 0.5)
    assert of_right > right or more - of_right > wrong or more > right + wrong


def light(right: list[bool], headroom: list[float] | None = None, task: list[int] | None = None, searched: int = 0):
    n = len(right)
    sampled = np.ones(n, dtype=bool)
    sampled[n - searched :] = False
    return Light(
        np.array(task if task is not None else range(n), dtype=np.int64),
        np.array(right),
        np.array(headroom if headroom is not None else [0.5] * n),
        sampled,
    )


@given(
    st.lists(st.booleans(), min_size=1, max_size=60),
    st.integers(0, 10),
    st.one_of(st.none(), st.integers(1, 70)),
    st.integers(0, 5),
)
def test_choosing_keeps_the_mix_and_counts_the_rest(right, searched: int, rows: int | None, seed: int) -> None:
    found = light(right + [True] * searched, searched=searched)
    if start_mix(0.8, sum(right), len(right) - sum(right)) == (0, 0):
        with pytest.raises(UsageError, match=r"mix\.right=null"):
            choose(MixConfig(), found, seed=seed, split="train")
        return
    chosen = choose(MixConfig(rows=rows), found, seed=seed, split="train")
    assert len(set(chosen.rows.tolist())) == len(chosen.rows)
    assert len(chosen.rows) + sum(chosen.dropped.values()) == len(found)
    if rows is not None:
        assert len(chosen.rows) <= rows
    sampled = [i for i in chosen.rows.tolist() if found.sampled[i]]
    of_right = sum(bool(found.right[i]) for i in sampled)
    assert of_right == math.floor(0.8 * len(sampled) + 0.5)


def test_only_train_rows_of_samples_are_mixed() -> None:
    found = light([False] * 10 + [True] * 5, searched=5)
    assert len(choose(MixConfig(), found, seed=0, split="validation").rows) == 15
    assert len(choose(MixConfig(right=None), found, seed=0, split="train").rows) == 15
    kept = choose(MixConfig(right=0.0), found, seed=0, split="train").rows.tolist()
    assert sorted(kept) == list(range(15))


def test_headroom_bounds_buckets_and_orders() -> None:
    headroom = [0.05, 0.1, 0.3, 0.6, 0.65, 0.9, 2.0, float("nan")]
    found = light([True] * 8, headroom)
    plain = {"right": None}

    def rows(**settings) -> list[int]:
        return choose(MixConfig.model_validate(plain | settings), found, seed=3, split="train").rows.tolist()

    assert sorted(rows(min_headroom=0.3)) == [2, 3, 4, 5, 6, 7]
    easy = rows(order="easy_first")
    assert easy == list(range(8))
    assert rows(order="hard_first") == [6, 5, 4, 3, 2, 1, 0, 7]
    assert rows(order="tasks") == list(range(8))
    assert sorted(rows()) == list(range(8)) and rows() != list(range(8)) and rows() == rows()
    spread = rows(buckets=2, per_bucket=1, order="tasks")
    assert len(spread) == 3 and 7 in spread and len([i for i in spread if headroom[i] < 0.5]) == 1


def test_per_task_and_seed() -> None:
    found = light([True] * 9, task=[0, 0, 0, 0, 1, 1, 1, 2, 2])
    kept = choose(MixConfig(right=None, per_task=2), found, seed=0, split="train")
    assert kept.dropped == {"per_task": 3}
    assert np.bincount(found.task[kept.rows]).tolist() == [2, 2, 2]
    chosen = {
        tuple(sorted(choose(MixConfig(right=None, rows=3), found, seed=s, split="train").rows.tolist()))
        for s in range(9)
    }
    assert len(chosen) > 1
