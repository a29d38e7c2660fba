from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coevo.errors import ConfigError, UsageError
from coevo.lab.interventions import SEALED, allowed, apply, family_of, lean, resolved, sealed
from coevo.lab.types import Change, Family
from tests.lab.small_lab import config

LAB = config()
RECIPE = lean(LAB.recipe)


def changed(**sets: Any) -> Any:
    return apply(Change(sets=sets), RECIPE, LAB)


def test_one_leaf() -> None:
    found = apply(Change(sets={"filter.name": "none"}), RECIPE, LAB)
    assert found.changed == ("filter.name",)
    assert resolved(found.recipe, LAB).filter.name == "none"
    assert resolved(RECIPE, LAB).filter.name == "zero_spread"


def test_swapping_parts_is_one_thing_and_null_goes_back_to_the_default() -> None:
    found = apply(Change(sets={"reward.parts": {"metaevolve": 1.0, "format": 0.1}}), RECIPE, LAB)
    assert found.changed == ("reward.parts",)
    less = apply(Change(sets={"reward.parts.format": None}), found.recipe, LAB)
    assert resolved(less.recipe, LAB).reward.parts == {"metaevolve": 1.0}
    assert resolved(apply(Change(sets={"reward.parts": None}), less.recipe, LAB).recipe, LAB) == resolved(RECIPE, LAB)


@pytest.mark.parametrize(
    "name", ["seed", "steps", "trainer", "evaluate.every", "sandbox.memory_mb", "toy.noise", "states.tasks"]
)
def test_what_is_sealed_stays(name: str) -> None:
    with pytest.raises(UsageError, match="sealed"):
        apply(Change(sets={name: 7}), RECIPE, config(allowed={name: "a lab may not open this"}))


def test_unknown_names_and_bad_values_are_told() -> None:
    with pytest.raises(UsageError, match="may not change"):
        apply(Change(sets={"nonsense": 1}), RECIPE, LAB)
    with pytest.raises(ConfigError, match="lr"):
        apply(Change(sets={"lr": -1}), RECIPE, LAB)
    with pytest.raises(UsageError, match="may not change"):
        apply(Change(sets={"filter.keep": 0.5}), RECIPE, config(allowed={"filter.*": ""}))


def test_no_change_is_no_intervention() -> None:
    with pytest.raises(UsageError, match="comes to nothing"):
        apply(Change(sets={"lr": LAB.recipe.lr}), RECIPE, LAB)


def test_two_things_need_a_bundle() -> None:
    two = {"lr": 1e-4, "filter.name": "none"}
    with pytest.raises(UsageError, match="2 things"):
        apply(Change(sets=two), RECIPE, LAB)
    bundle = Change(sets=two, bundle="the filter hides the rate", ablation=("filter.name", "lr"))
    assert set(apply(bundle, RECIPE, LAB).changed) == set(two)


def test_more_rollouts_cannot_be_bought() -> None:
    with pytest.raises(UsageError, match="rollouts a step"):
        apply(Change(sets={"group_size": 64}), RECIPE, LAB)


@pytest.mark.parametrize(
    "path", ["rewards/../../x.py", "/etc/x.py", "rewards/.git/x.py", "recipe.yaml", "rewards/x.sh", "rewards\\x.py"]
)
def test_files_stay_in_their_place(path: str) -> None:
    open_lab = config(recipe={"trainer": "grpo"}, allowed={"rewards/*.py": "reward functions"})
    with pytest.raises(UsageError):
        apply(Change(files={path: "x"}), RECIPE, open_lab)


def test_reward_files_need_the_labs_word() -> None:
    file = Change(files={"rewards/own.py": "def f(sample): return 1.0\n"})
    grpo = config(recipe={"trainer": "grpo"})
    with pytest.raises(UsageError, match="may not change"):
        apply(file, lean(grpo.recipe), grpo)
    trusting = config(recipe={"trainer": "grpo"}, allowed={"rewards/*.py": "reward functions"})
    assert apply(file, lean(trusting.recipe), trusting).changed == ("rewards/own.py",)


@given(st.sampled_from(sorted(allowed(LAB))))
def test_nothing_allowed_is_sealed(pattern: str) -> None:
    assert pattern not in SEALED


@pytest.mark.parametrize(
    ("change", "family"),
    [
        (Change(), Family.CONTINUE),
        (Change(sets={"reward.worse": 0}), Family.REWARD),
        (Change(sets={"toy.leak": 0}), Family.REWARD),
        (Change(sets={"filter.name": "none"}), Family.FILTER),
        (Change(sets={"lr": 1}), Family.HYPERPARAMETER),
        (Change(weights={"from": "b1@3"}), Family.CHECKPOINT),
        (Change(weights={"a": "b1", "b": "b2"}), Family.AVERAGE),
    ],
)
def test_families(change: Change, family: Family) -> None:
    assert family_of(change) is family


@pytest.mark.parametrize(
    "weights", [{"from": "b1"}, {"a": "b1"}, {"a": "b1", "b": "b1"}, {"a": "b1", "b": "b2", "share": "2"}, {"x": "y"}]
)
def test_weights_that_say_nothing(weights: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="weights"):
        apply(Change(weights=weights), RECIPE, LAB)


def test_seals_tell_gate_budget_and_judge_apart() -> None:
    def seals(judge: str = "x", **changes: Any) -> dict[str, str]:
        return sealed(config(**changes).model_dump(mode="json"), {"judge": judge})

    base = seals()
    assert seals(gate={"alpha": 0.2})["gate"] != base["gate"]
    assert seals(budget={"rounds": 9})["budget"] != base["budget"]
    assert seals("y")["judge"] != base["judge"]
