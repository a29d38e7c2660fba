"""When rules would have fired; whether backtests predict."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from coevo.backtest import Known, Plain, backtest_rule, diagnostic_of, track
from coevo.diagnostics.types import Level, Rule
from coevo.errors import UsageError

MADE = diagnostic_of(Plain("apart", "", "", "", 0.15, 0.25, term="drift(mean(reward)) - drift(mean(truth))"))
RULE = Rule("leaks", ("apart",), lambda found: found["apart"].level in (Level.WARN, Level.CRITICAL), "It leaks.")


def test_it_says_when_and_on_which(branches) -> None:
    found = backtest_rule(RULE, branches, diagnostics={"apart": MADE}, looks=6)
    assert set(found.hits) == {"leak0", "leak1", "leak2", "leak3"} and found.false_alarms == ()
    assert found.separation.auc == 1.0
    for course in found.courses:
        assert course.looks == (2, 4, 6, 8, 10, 12)
        assert not any(course.fired[:2])  # They see too few steps to compare.
        if course.known is Known.BAD:
            assert course.first >= 6 and 0 < course.share_left < 0.7
    assert json.dumps(found.to_dict())


def test_a_rule_that_always_speaks_separates_nothing(branches) -> None:
    found = backtest_rule(replace(RULE, when=lambda found: True), branches, diagnostics={"apart": MADE}, looks=2)
    assert len(found.false_alarms) == 4 and found.separation.auc == 0.5 and found.separation.p == 1
    assert all(course.share_left == 1 for course in found.courses)


def test_what_it_cites_must_be_there_and_may_be_silent(branches) -> None:
    with pytest.raises(UsageError, match="cites diagnostics that are not here: apart"):
        backtest_rule(RULE, branches, diagnostics={})
    blind = [
        replace(b, frame=replace(b.frame, numbers_by_name={"reward": b.frame.numbers("reward")})) for b in branches[:2]
    ]
    found = backtest_rule(RULE, blind, diagnostics={"apart": MADE})
    assert found.unknown == {"apart": 2} and found.hits == () and found.separation.auc is None


def test_tracking() -> None:
    assert track([]).rho is None and track([(1.0, 2.0), (None, 3.0)]).pairs == 1
    assert "never varies" in track([(1.0, 2.0)] * 5).note
    assert track([(1.0, 1.0), (2.0, 2.0), (3.0, 1.5)]).low is None
    rising = track([(i, i**3) for i in range(8)])
    assert rising.rho == 1.0 and 0 < rising.low < 1 == rising.high
    falling = track([(i, -i) for i in range(8)])
    assert falling.rho == -1.0 and falling.high == -rising.low and "mislead" in falling.note
    mixed = track([(i, (i * 5) % 8) for i in range(8)])
    assert -1 < mixed.low < mixed.rho < mixed.high < 1 and "not known yet" in mixed.note


def test_the_interval_covers_as_often_as_it_says() -> None:
    from math import asin, pi

    from coevo.streams import array_stream

    rng, r, hits, trials = array_stream(0, "tracking"), 0.5, 0, 300
    true = 6 / pi * asin(r / 2)  # Spearman's of two normals with correlation r (Pearson 1907).
    for _ in range(trials):
        x = rng.normal(size=25)
        y = r * x + (1 - r * r) ** 0.5 * rng.normal(size=25)
        found = track(list(zip(x.tolist(), y.tolist(), strict=True)))
        hits += found.low <= true <= found.high
    assert 0.91 <= hits / trials <= 0.99
