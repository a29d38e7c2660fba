"""What is said of a run's curve."""

from __future__ import annotations

from coevo.streams import stream
from coevo.training.verdict import verdict


def curve(reward, truth=None, steps=40):
    rng = stream(0, "verdict")
    for i in range(steps):
        row = {"step": i + 1, "reward_mean": reward(i) + rng.gauss(0, 0.02)}
        yield row if truth is None else row | {"truth": truth(i) + rng.gauss(0, 0.02)}


def test_what_moves_and_what_does_not() -> None:
    rises = verdict(curve(lambda i: i / 100, lambda i: i / 100))
    assert rises.startswith("the reward rises (+0.") and "and the truth with it (+0." in rises
    assert "truth on hidden tests does not" in verdict(curve(lambda i: i / 100, lambda i: 0.3))
    assert verdict(curve(lambda i: i / 100)).startswith("the reward rises")
    assert verdict(curve(lambda i: -i / 100, lambda i: 0.0)).startswith("the reward falls (-0.")
    assert verdict(curve(lambda i: 0.5, lambda i: 0.0)).startswith("no change of the reward")


def test_few_steps_and_equal_ones() -> None:
    assert verdict([]).startswith("too few steps")
    assert verdict(curve(lambda i: i, steps=5)).startswith("too few steps")
    assert verdict([{"reward_mean": 0.0, "truth": None}] * 8).startswith("no change of the reward")
    assert verdict([{"truth": 0.5}] * 8).startswith("too few steps")


def test_tasks_that_do_not_train_are_told_apart() -> None:
    rows = list(curve(lambda i: i / 100, lambda i: i / 100))
    assert "evaluation" not in verdict(rows, [{"fitness": 0.5}])
    for last, went in ((0.6, "rises"), (0.4, "falls"), (0.5, "stays")):
        assert f"tasks fitness {went}, 0.5 -> {last}" in verdict(rows, [{"fitness": 0.5}, {}, {"fitness": last}])


def test_an_evaluation_of_some_tasks_is_compared_with_nothing() -> None:
    """A mean over the easy half of the tasks would look like progress."""
    rows = list(curve(lambda i: i / 100, lambda i: i / 100))
    whole, half = {"tasks": 2, "tasks_measured": 2}, {"tasks": 2, "tasks_measured": 1}
    judged = [{"fitness": 0.5, **whole}, {"fitness": 0.6, **whole}, {"fitness": 0.9, **half}]
    assert "fitness rises, 0.5 -> 0.6" in verdict(rows, judged)
    assert "evaluation" not in verdict(rows, [judged[0], judged[2]])
