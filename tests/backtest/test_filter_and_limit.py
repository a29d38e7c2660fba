"""Filters and limits on recorded rollouts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coevo.backtest import backtest_filter, backtest_limit
from coevo.errors import UsageError
from coevo.evidence import frame_of
from coevo.training.advantages import is_dead
from coevo.training.settings import FilterConfig

REWARDS = st.lists(st.lists(st.sampled_from([0.0, 0.2, 1.0, None]), min_size=1, max_size=5), min_size=1, max_size=8)


def frame(groups: list[list[float | None]]):
    return frame_of(
        {
            "step": g // 2,
            "group": f"g{g}",
            "task": f"t{g % 4}",
            "split": "train",
            "reward": reward,
            "tokens": 10 * g + i,
            "truth": reward,
            "unmeasured_reason": "" if reward is not None else "lost",
            "turns": 1 + i,
        }
        for g, group in enumerate(groups)
        for i, reward in enumerate(group)
    )


@given(REWARDS)
@settings(max_examples=60, deadline=None)
def test_none_keeps_all_and_zero_spread_drops_the_dead(groups) -> None:
    made = frame(groups)
    known = [[r for r in group if r is not None] for group in groups]
    measured = [values for values in known if values]
    everything = backtest_filter(made, FilterConfig(name="none"))
    assert everything.kept == everything.groups == len(measured)
    assert everything.kept_share in (1, None) and everything.bias in (0, None)
    found = backtest_filter(made, FilterConfig(name="zero_spread"))
    assert found.groups - found.kept == found.dead == sum(is_dead(values) for values in measured)
    assert found.live_dropped == 0 and found.variance_kept in (None, pytest.approx(1))
    assert sum(band.groups for band in found.bands) == found.groups
    assert sum(band.kept for band in found.bands) == found.kept


def test_what_was_kept_then_is_kept_in_the_replay(trained) -> None:
    recipe, _, frame = trained("seed=0")
    found = backtest_filter(frame, recipe.filter)
    assert found.recorded_kept == found.kept_share
    assert found.dead > 0 and found.variance_kept == pytest.approx(1)


def test_the_mean_of_kept_groups_is_another_mean(trained) -> None:
    _, _, frame = trained("seed=0")
    found = backtest_filter(frame, FilterConfig(name="top_uncertain", share=0.25))
    assert found.bias is not None and found.bias > 0.02 and found.truth_kept < found.truth_all
    hard, _, easy = found.bands
    assert hard.kept / hard.groups > easy.kept / easy.groups
    assert found.prediction is not None and found.prediction > 1 and found.live_dropped > 0


def test_the_memory_of_a_filter_is_said_to_be_short(trained) -> None:
    _, _, frame = trained("seed=0")
    assert any("first 20 rounds" in note for note in backtest_filter(frame, FilterConfig(name="ema_threshold")).notes)


@given(REWARDS, st.integers(1, 90), st.integers(1, 90))
@settings(max_examples=40, deadline=None)
def test_a_tighter_limit_cuts_no_less(groups, a: int, b: int) -> None:
    made = frame(groups)
    tight, loose = (backtest_limit(made, max_tokens=n) for n in (min(a, b), max(a, b)))
    for name in ("all", "rewarded", "true"):
        assert getattr(tight, name).cut >= getattr(loose, name).cut
    assert tight.tokens_saved >= loose.tokens_saved - 1e-9
    measured = made.measured
    beyond = np.maximum(0, made.numbers("tokens")[measured] - min(a, b)).sum()
    assert tight.tokens_saved == pytest.approx(beyond)
    nothing = backtest_limit(made, max_tokens=10_000)
    assert nothing.all.cut == 0 and nothing.tokens_saved == 0


def test_a_limit_that_cuts_what_is_good_is_predicted_to_be_bad(trained) -> None:
    _, _, frame = trained("toy.bonus=0.5")
    pads, edits = backtest_limit(frame, max_tokens=100), backtest_limit(frame, max_tokens=70)
    assert pads.true.share == 0 and pads.rewarded.share > 0 and pads.prediction > 0
    assert edits.true.share == 1 and edits.prediction < 0


def test_turns_and_wrong_limits() -> None:
    made = frame([[0.0, 1.0, 1.0]])
    found = backtest_limit(made, turns=2)
    assert found.all.cut == 1 and found.tokens_saved == pytest.approx(2 / 3)
    for kwargs, says in (
        ({}, "either"),
        ({"turns": 1, "max_tokens": 1}, "either"),
        ({"max_tokens": 0}, "cuts everything"),
    ):
        with pytest.raises(UsageError, match=says):
            backtest_limit(made, **kwargs)
    with pytest.raises(UsageError, match="no column 'turns'"):
        backtest_limit(frame_of([{"reward": 1.0, "tokens": 3}]), turns=2)
