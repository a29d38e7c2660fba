"""Trainer toy: the closed forms, what each fault does to the truth, and going on after a stop."""

import json
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coevo.config import parse, with_sets
from coevo.engines.types import LossConfig
from coevo.episodes.evidence import COLUMNS
from coevo.errors import ConfigError, InfrastructureError
from coevo.runs import Budget, Run
from coevo.streams import array_stream
from coevo.training.history import curve, evaluations
from coevo.training.result import StoppedBy
from coevo.training.settings import Recipe
from coevo.training.toy import train_toy, true_ability, weights_of
from coevo.training.toy_policy import Choices, _entropy_gradient, _kl_gradient, _policy_gradient, entropy_of, kl_of
from coevo.training.toy_world import ACTIONS, FEATURES, STATES, World, log_policy

SHAPE = (FEATURES, len(ACTIONS))


def recipe(*sets, steps=100):
    return parse(Recipe, with_sets({"trainer": "toy", "steps": steps}, sets), where="test")


def trained(path, *sets, steps=100):
    made = recipe(*sets, steps=steps)
    with Run.create(path, kind="train", config={"recipe": made.model_dump(mode="json")}) as run:
        return train_toy(made, run)


def weights(seed):
    return array_stream(seed, "weights").normal(0, 1, SHAPE)


# The closed forms


def test_outcomes_are_distributions_within_bounds():
    for state, action in product(STATES, range(len(ACTIONS))):
        outcomes = World(leak=0.7).outcomes(state, action)
        assert sum(outcome.chance for outcome in outcomes) == pytest.approx(1)
        assert all(0 <= o.hidden <= 1 and (o.public is None or 0 <= o.public <= 1) for o in outcomes)


@given(st.integers(0, 50), st.integers(1, 6))
@settings(max_examples=10, deadline=None)
def test_true_ability_is_what_simulation_gives(seed, k):
    policy, world, rng = np.exp(log_policy(weights(seed), STATES)), World(), array_stream(seed, "simulated")
    found = []
    for _ in range(1500):
        state = STATES[rng.integers(len(STATES))]
        best = 0.0
        for _ in range(k):
            outcomes = world.outcomes(state, int(rng.choice(len(ACTIONS), p=policy[state.index])))
            drawn = outcomes[rng.choice(len(outcomes), p=[o.chance for o in outcomes])]
            best = max(best, drawn.hidden - state.fitness)
        found.append(best)
    error = np.std(found) / np.sqrt(len(found))
    assert abs(np.mean(found) - world.ability(policy, k)) < 5 * error + 1e-9


def test_more_tries_never_hurt_and_no_policy_beats_the_best():
    world = World()
    for seed in range(20):
        policy = np.exp(log_policy(3 * weights(seed), STATES))
        abilities = [world.ability(policy, k) for k in range(1, 6)]
        assert abilities == sorted(abilities) and abilities[0] <= world.best_ability


def numerical(function, at, step=1e-5):
    found = np.zeros_like(at)
    for index in np.ndindex(at.shape):
        change = np.zeros_like(at)
        change[index] = step
        found[index] = (function(at + change) - function(at - change)) / (2 * step)
    return found


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_gradients_are_those_of_their_objectives(temperature):
    at, old = weights(1), weights(2)
    states = STATES * 2
    actions = array_stream(3, "actions").integers(0, len(ACTIONS), len(states))
    chosen = Choices(
        states,
        actions,
        log_policy(old, states, temperature)[np.arange(len(states)), actions],
        array_stream(4, "advantages").normal(0, 1, len(states)),
    )

    def ratios(w):
        return np.exp(log_policy(w, states, temperature)[np.arange(len(states)), actions] - chosen.logprobs)

    def clipped(w):
        low = np.minimum(ratios(w) * chosen.advantages, np.clip(ratios(w), 0.8, 1.28) * chosen.advantages)
        return low.mean()

    unclipped = LossConfig(name="importance_sampling")
    assert np.allclose(
        _policy_gradient(at, chosen, unclipped, temperature),
        numerical(lambda w: (ratios(w) * chosen.advantages).mean(), at),
        atol=1e-7,
    )
    assert np.allclose(
        _policy_gradient(at, chosen, LossConfig(name="dapo"), temperature), numerical(clipped, at), atol=1e-7
    )
    assert np.allclose(
        _entropy_gradient(at, temperature), numerical(lambda w: entropy_of(w, temperature), at), atol=1e-7
    )
    assert np.allclose(_kl_gradient(at), numerical(lambda w: kl_of(w, np.zeros(SHAPE)), at), atol=1e-7)


# What training does


@pytest.fixture(scope="module")
def honest(tmp_path_factory):
    path = tmp_path_factory.mktemp("toy") / "run"
    return path, trained(path)


def test_training_raises_the_true_ability(honest):
    _, result = honest
    assert result.stopped_by is StoppedBy.STEPS and result.exit_code == 0 and result.steps == 100
    metrics = result.metrics
    assert (
        metrics["ability_last"] > 4 * metrics["ability_first"]
        and metrics["ability_8_last"] > metrics["ability_8_first"]
    )
    assert metrics["truth_last"] > metrics["truth_first"]


def test_every_rollout_is_evidence_of_schema_1(honest):
    path, _ = honest
    with Run.open(path, write=False) as run:
        rows = list(run.rollouts())
        steps = list(curve(run))
        judged = list(evaluations(run))
    assert all(set(row) == set(COLUMNS) for row in rows)
    train = [row for row in rows if row["split"] == "train"]
    assert len(steps) == 100 and len(train) == sum(step["rollouts"] for step in steps)
    assert len(judged) == 5 and len([row for row in rows if row["split"] == "eval"]) == 5 * 12 * 4
    assert all(row["reward"] == pytest.approx(sum(row["parts"].values())) for row in train)
    assert all(row["kept"] is False or row["advantage"] is not None for row in train)
    first = [row for row in train if row["step"] == 1]
    assert sum(r["reward"] for r in first) / len(first) == pytest.approx(steps[0]["reward_mean"])


def test_the_copy_trap_of_the_floor(tmp_path, honest):
    """MetaEvolve's -1 for a regression teaches to hand the parent back; a search with that policy is worse than untrained."""
    result = trained(tmp_path / "run", "reward.parts={metaevolve: 1}", "lr=2e-5", steps=80)
    assert result.metrics["copy_rate_last"] > 0.6
    assert result.metrics["ability_8_last"] < result.metrics["ability_8_first"]
    assert honest[1].metrics["copy_rate_last"] < 0.1


@pytest.mark.parametrize(
    ("fault", "rate"),
    [("toy.leak=0.8", "hack_rate"), ("toy.bonus=0.5", "pad_rate")],
    ids=["leaky tests", "shaped reward"],
)
def test_a_hack_raises_the_reward_and_ruins_the_truth(tmp_path, fault, rate):
    result = trained(tmp_path / "run", fault, steps=80)
    metrics = result.metrics
    assert metrics["reward_mean_last"] > metrics["reward_mean_first"] + 0.2
    assert metrics["ability_last"] < metrics["ability_first"]
    with Run.open(tmp_path / "run", write=False) as run:
        rates = [row[rate] for row in curve(run)]
    assert sum(rates[-10:]) / 10 > 0.8 > 0.3 > sum(rates[:5]) / 5


def test_rewards_of_one_level_teach_nothing(tmp_path):
    result = trained(tmp_path / "run", "toy.levels=1", steps=5)
    assert result.metrics["skipped"] == 5 and result.metrics["ability_last"] == result.metrics["ability_first"]
    with Run.open(tmp_path / "run", write=False) as run:
        assert all(row["dead_groups"] == 1 for row in curve(run))
        assert not weights_of(run).any()


def test_a_rate_too_high_collapses_and_one_too_low_stays(tmp_path, honest):
    high, low = trained(tmp_path / "high", "lr=1e-3", steps=60), trained(tmp_path / "low", "lr=1e-7", steps=40)
    good = honest[1].metrics
    assert high.metrics["entropy_last"] < 0.05 and high.metrics["ability_8_last"] < good["ability_8_last"]
    assert abs(low.metrics["ability_last"] - low.metrics["ability_first"]) < 0.01


def test_lost_rollouts_are_masked_and_counted(tmp_path):
    trained(tmp_path / "run", "toy.unmeasured=0.3", steps=10)
    with Run.open(tmp_path / "run", write=False) as run:
        rows = list(run.rollouts(split="train"))
    lost = [row for row in rows if row["unmeasured_reason"]]
    assert 0.2 < len(lost) / len(rows) < 0.4
    assert all(row["reward"] is None and row["truth"] is None and row["advantage"] is None for row in lost)


def test_a_machine_that_loses_too_much_ends_the_run_as_in_the_other_trainers(tmp_path):
    with pytest.raises(InfrastructureError, match="3 steps in a row could not be measured"):
        trained(tmp_path / "run", "toy.unmeasured=0.8", steps=10)
    with Run.open(tmp_path / "run", write=False) as run:
        skipped = [event.payload["skipped"] for event in run.events(kinds=("update",))]
        assert not weights_of(run).any()
    assert len(skipped) == 3 and all("of the rollouts could not be measured" in why for why in skipped)


def test_an_evaluation_that_measures_nothing_has_no_fitness(tmp_path):
    trained(tmp_path / "run", "toy.unmeasured=0.99", "unmeasured=0.999", "evaluate={every: 1, samples: 1}", steps=8)
    with Run.open(tmp_path / "run", write=False) as run:
        told = [event.payload["metrics"] for event in run.events(kinds=("evaluated",))]
        evidence = list(run.rollouts(split="eval"))
    assert len(told) == 8
    for step, figures in enumerate(told, 1):
        truths = [row["truth"] for row in evidence if row["step"] == step and row["truth"] is not None]
        assert ("fitness" in figures) == ("truth" in figures) == bool(truths)
    assert any("fitness" not in figures for figures in told)


def test_an_entropy_floor_keeps_the_policy_open(tmp_path, honest):
    result = trained(tmp_path / "run", "entropy={floor: 1.0, coefficient: 0.5}")
    assert result.metrics["entropy_last"] > 1.5 * honest[1].metrics["entropy_last"]


# Determinism, stopping, going on


@pytest.mark.parametrize("how", ["filter={name: ema_threshold, decay: 1.0}", "advantage={name: best_of_k, k: 4}"])
def test_stopped_and_resumed_is_the_same_run(tmp_path, how):
    sets = (how, "entropy.floor=1.5", "filter.replace=2")
    whole = trained(tmp_path / "whole", *sets, steps=30)
    made = recipe(*sets, steps=30)

    def stop(progress):
        if progress.step in (7, 19):
            (tmp_path / "parts" / "stop").touch()

    with Run.create(tmp_path / "parts", kind="train", config={"recipe": made.model_dump(mode="json")}) as run:
        assert train_toy(made, run, observer=stop).stopped_by is StoppedBy.INTERRUPTED
    results = []
    for _ in range(2):
        with Run.open(tmp_path / "parts", write=True) as run:
            results.append(train_toy(made, run, observer=stop))
    assert [result.stopped_by for result in results] == [StoppedBy.INTERRUPTED, StoppedBy.STEPS]
    with Run.open(tmp_path / "whole", write=False) as a, Run.open(tmp_path / "parts", write=False) as b:
        assert np.array_equal(weights_of(a), weights_of(b))
        rows = [[{**row, "run": ""} for row in run.rollouts()] for run in (a, b)]
    assert rows[0] == rows[1] and whole.metrics == results[-1].metrics


def test_a_budget_ends_it_and_more_goes_on(tmp_path):
    made = recipe(steps=10)
    with Run.create(tmp_path / "run", kind="train", config={}, budget=Budget(evaluations=300)) as run:
        result = train_toy(made, run)
        assert result.stopped_by is StoppedBy.BUDGET and 0 < result.steps < 10
        assert result.spent["evaluations"] <= 300
    with Run.open(tmp_path / "run", write=True, budget=Budget(evaluations=3000)) as run:
        assert train_toy(made, run).steps == 10


def test_a_seed_changes_the_run_and_the_policy_is_left(tmp_path):
    trained(tmp_path / "a", steps=3)
    trained(tmp_path / "b", "seed=1", steps=3)
    policies = [json.loads((tmp_path / name / "artifacts" / "policy.json").read_text()) for name in "ab"]
    assert policies[0]["weights"] != policies[1]["weights"]
    assert true_ability(recipe(), np.array(policies[0]["weights"])) > 0


def test_an_observer_that_raises_is_dropped(tmp_path):
    def broken(progress):
        raise RuntimeError("no screen")

    made = recipe(steps=3)
    with Run.create(tmp_path / "run", kind="train", config={}) as run:
        result = train_toy(made, run, observer=broken)
    assert result.steps == 3 and "no screen" in result.notes[0]


def test_what_the_toy_cannot_do_is_said(tmp_path):
    with Run.create(tmp_path / "run", kind="train", config={}) as run, pytest.raises(ConfigError, match="one-shot"):
        train_toy(recipe("episode.name=refine"), run)
