"""Rewards on recorded rollouts: what was recorded comes out again, nothing is guessed, and traps show before training."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coevo.backtest import Trained, backtest_reward
from coevo.backtest.rescoring import agreement, rescore
from coevo.backtest.samples import copies
from coevo.errors import ConfigError
from coevo.evidence import frame_of
from coevo.streams import array_stream
from coevo.training.settings import AdvantageConfig, FilterConfig, RewardConfig

EVERYTHING = "{metaevolve: 1, difference: 0.5, absolute: 0.3, lazy: 0.2, search_gain: 2, format: 0.1, length: 0.4}"


def rows(seed: int = 0, groups: int = 6, size: int = 5, **fixed: object) -> list[dict]:
    rng = array_stream(seed, "rows")
    made = []
    for g in range(groups):
        parent = float(rng.choice([0.2, 0.5]))
        for i in range(size):
            fitness = float(np.clip(parent + rng.choice([-0.2, 0.0, 0.1, 0.3]), 0, 1))
            made.append(
                {
                    "step": g // 2,
                    "group": f"g{g}",
                    "sample": i,
                    "split": "train",
                    "task": f"t{g % 3}",
                    "turns": 1,
                    "parent_fitness": parent,
                    "fitness": fitness,
                    "correctness": fitness,
                    "reward": max(0.0, fitness - parent),
                    "truth": float(np.clip(fitness - rng.choice([0, 0, 0.2]), 0, 1)),
                    "contract_ok": True,
                    "meaning_ok": fitness > 0.5,
                    "tokens": int(rng.integers(10, 100)),
                    "stop_reason": "stop",
                    "program_hash": f"h{g}{i}",
                    "parts": {"search_gain": max(0.0, fitness - parent)},
                    **fixed,
                }
            )
    return made


SEARCH_GAIN = Trained(RewardConfig(), AdvantageConfig(), FilterConfig(), 100)


def test_every_part_comes_out_as_it_was_recorded(trained) -> None:
    recipe, _, frame = trained(f"reward.parts={EVERYTHING}", "reward.tolerance=0.02", "toy.unmeasured=0.1")
    assert agreement(frame, Trained.of(recipe)) == 1.0
    found = rescore(frame, recipe.reward, Trained.of(recipe))
    assert found.reasons == {} and found.reused == ()
    assert int(np.isfinite(found.rewards).sum()) == int(frame.measured.sum()) < frame.rows


def test_the_same_reward_changes_nothing(trained) -> None:
    recipe, _, frame = trained("seed=0")
    found = backtest_reward(frame, recipe.reward, recipe.advantage, recipe.filter, trained=Trained.of(recipe))
    assert found.before == found.after and found.order.before == found.order.after
    assert found.revived == found.died == found.order.mended == found.order.broken == 0
    assert found.prediction == 0 and found.agreement == 1 and found.compared == frame.measured.sum()


def test_the_copy_trap_shows_before_training(trained) -> None:
    recipe, _, frame = trained("seed=0")
    found = backtest_reward(frame, RewardConfig(parts={"metaevolve": 1.0}), trained=Trained.of(recipe))
    copy = next(one for one in found.behaviours if one.name == "copy")
    assert copy.rollouts > 5 and copy.advantage_before < 0 < copy.advantage_after
    assert found.after.on_gains < found.before.on_gains


def test_what_advantages_become_is_what_training_computed(trained) -> None:
    recipe, _, frame = trained("seed=0")
    found = backtest_reward(frame, recipe.reward, filter=FilterConfig(name="none"), trained=Trained.of(recipe))
    recorded = frame.numbers("advantage")
    assert found.after.advantage == pytest.approx(np.nanmean(np.abs(recorded)))
    assert found.after.positive == pytest.approx((recorded > 0).mean())


def test_a_bonus_that_no_recipe_pays_is_told() -> None:
    made = rows()
    for row in made[::4]:
        row["parts"] = {**row["parts"], "bonus": 0.5}
        row["reward"] += 0.5
    found = backtest_reward(frame_of(made), RewardConfig(parts={"absolute": 1.0}), trained=SEARCH_GAIN)
    assert found.agreement == pytest.approx(1 - len(made[::4]) / len(made))
    assert any("bonus" in note for note in found.notes)


@given(
    st.integers(0, 30), st.floats(0.01, 50), st.sampled_from(["absolute", "difference", "search_gain", "metaevolve"])
)
@settings(max_examples=25, deadline=None)
def test_a_reward_times_a_number_orders_alike(seed: int, weight: float, part: str) -> None:
    frame = frame_of(rows(seed))
    one, other = (backtest_reward(frame, RewardConfig(parts={part: w})) for w in (1.0, weight))
    assert one.order == other.order
    assert one.after.aligned == pytest.approx(other.after.aligned) if one.after.aligned is not None else True
    pairs = one.order.after
    assert pairs.pairs == pairs.agree + pairs.invert + pairs.tie == one.order.before.pairs


@given(st.integers(0, 30))
@settings(max_examples=15, deadline=None)
def test_pairs_are_those_of_counting(seed: int) -> None:
    frame = frame_of(rows(seed))
    found = backtest_reward(frame, RewardConfig(parts={"absolute": 1.0})).order
    counts = {"agree": 0, "invert": 0, "tie": 0}
    mended = 0
    fitness, truth, old = (frame.numbers(name) for name in ("fitness", "truth", "reward"))
    for i in range(frame.rows):
        for j in range(i):
            if frame.groups[i] == frame.groups[j] and abs(truth[i] - truth[j]) > 1e-9:
                way = math.copysign(1, truth[i] - truth[j])
                new = way * (fitness[i] - fitness[j])
                name = "tie" if abs(new) <= 1e-9 else "agree" if new > 0 else "invert"
                counts[name] += 1
                mended += way * (old[i] - old[j]) < -1e-9 and name != "invert"
    assert found.after._asdict() == counts and found.mended == mended


def test_dead_groups_are_revived_by_a_reward_with_spread() -> None:
    made = rows(reward=0.25)
    found = backtest_reward(frame_of(made), RewardConfig(parts={"absolute": 1.0}))
    assert found.before.dead_groups == found.groups == 6 and found.before.advantage == 0
    assert found.revived == 6 - found.after.dead_groups > 0 and found.died == 0


def test_nothing_is_guessed_where_a_copy_cannot_be_told() -> None:
    made = [
        {**row, "contract_ok": False, "fitness": None, "truth": None} if i % 5 == 0 else row
        for i, row in enumerate(rows())
    ]
    frame = frame_of(made)
    assert np.isnan(copies(frame)).sum() == 6
    found = backtest_reward(frame, RewardConfig(parts={"metaevolve": 1.0}), trained=SEARCH_GAIN)
    assert found.compared == 24 and sum(found.reasons.values()) == 6
    assert any("copy of its parent" in reason for reason in found.reasons)
    assert backtest_reward(frame, RewardConfig(parts={"lazy": 1.0}), trained=SEARCH_GAIN).compared == 30


@pytest.mark.parametrize(
    ("extra", "told"),
    [
        ({"text.copies_parent": 1.0}, 1.0),
        ({"text.copies_parent": 0.0, "truth": 0.4}, 0.0),
        ({"truth": 0.4}, 1.0),
        ({"parts": {"format": 0.1}}, 1.0),
        ({"parts": {"format": 0.0}}, 0.0),
        ({"parts": {"metaevolve": -1.0}}, 0.0),
        ({"parts": {"absolute": 0.2}}, 1.0),
        ({"kind": "toy", "truth": 0.0}, 0.0),
    ],
)
def test_copies_are_told_by_what_is_there(extra: dict, told: float) -> None:
    row = {"reward": 0.0, "contract_ok": False, "fitness": None, "parent_fitness": 0.2, "truth": 0.0, **extra}
    assert copies(frame_of([row])).tolist() == [told]


def test_what_evidence_lacks_is_named() -> None:
    frame = frame_of([{k: v for k, v in row.items() if k != "parent_fitness"} for row in rows()])
    found = backtest_reward(frame, RewardConfig(parts={"search_gain": 1.0}))
    assert found.compared == 0 and found.reasons == {"search_gain: no parent_fitness": 30}
    assert backtest_reward(frame, RewardConfig(parts={"absolute": 1.0})).compared == 30
    length = backtest_reward(frame, RewardConfig(parts={"length": 1.0}))
    assert length.compared == 0 and "max_tokens" in next(iter(length.reasons))


def test_a_part_that_cannot_be_computed_is_taken_from_the_record() -> None:
    made = rows()
    for i, row in enumerate(made):
        row["parts"] = {"search_gain": row["reward"], "novelty": 0.2 * (i % 2)}
        row["reward"] += row["parts"]["novelty"]
    old = Trained(RewardConfig(parts={"search_gain": 1.0, "novelty": 0.2}))
    found = rescore(frame_of(made), RewardConfig(parts={"search_gain": 1.0, "novelty": 0.6}), old)
    assert found.reused == ("novelty",)
    wanted = [row["parts"]["search_gain"] + 0.6 * (i % 2) for i, row in enumerate(made)]
    assert found.rewards.tolist() == pytest.approx(wanted)
    assert rescore(frame_of(made), RewardConfig(parts={"novelty": 1.0})).reasons == {
        "novelty: it compares sources, which evidence does not hold": 30
    }


def test_functions_of_ones_own_see_what_evidence_carries(tmp_path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(
        "def f(sample):\n    return sample.fitness * 2 + len(sample.text)\n\n\ndef g(sample):\n    return 1.0\n"
    )
    frame = frame_of([{**row, "response": "abc"} for row in rows(groups=2)])
    found = rescore(frame, RewardConfig(parts={f"{path}:f": 0.5}))
    assert found.rewards.tolist() == pytest.approx((frame.numbers("fitness") + 1.5).tolist())
    path.write_text("def f(sample):\n    return len(sample.source) + sum(sample.outcomes)\n")
    lacking = rescore(frame, RewardConfig(parts={f"{path}:f": 0.5}))
    assert np.isnan(lacking.rewards).all() and "outcomes, source" in next(iter(lacking.reasons))
    with pytest.raises(ConfigError, match="cannot read reward file"):
        rescore(frame, RewardConfig(parts={f"{tmp_path / 'none.py'}:f": 0.5}))


def test_several_turns_are_scored_by_the_best_one_and_that_is_said() -> None:
    found = backtest_reward(frame_of(rows(turns=3)), RewardConfig(parts={"absolute": 1.0}), trained=SEARCH_GAIN)
    assert found.compared == 30 and any("best turn" in note for note in found.notes)


def test_no_rows_and_no_truth_are_no_numbers() -> None:
    empty = backtest_reward(frame_of([]), RewardConfig())
    assert empty.groups == empty.compared == 0 and empty.prediction is None and empty.to_dict()["kind"] == "reward"
    blind = backtest_reward(
        frame_of([{k: v for k, v in row.items() if k != "truth"} for row in rows()]),
        RewardConfig(parts={"absolute": 1.0}),
    )
    assert blind.order.after.score is None and blind.after.correlation is None and blind.prediction is not None


def test_of_very_many_rollouts_whole_steps_are_replayed() -> None:
    made = rows(groups=40)
    whole, some = (
        backtest_reward(frame_of(made), RewardConfig(parts={"absolute": 1.0}), most=most) for most in (200, 60)
    )
    assert whole.rollouts == 200 and some.rollouts == 50 and some.groups == 10
    assert "50 of 200 rows" in some.notes[0] and not any("were replayed" in note for note in whole.notes)
