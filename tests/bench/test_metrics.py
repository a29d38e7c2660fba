"""Metrics are functions of records; each is held against a case worked out by hand."""

from __future__ import annotations

import json
import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coevo.bench import metrics
from coevo.bench.types import SearchRecord, Step
from tests.bench.made import record, step


def test_evolve_at_k_by_hand() -> None:
    steps = (
        step(1, 0.3, 2),
        step(1, None, 2, rejection="no_code"),
        step(1, 0.3, 2, duplicate=True),
        step(2, 0.1, 3),
        step(2, 0.7, 4),
    )
    one = record(steps=steps)
    assert metrics.curve(one, 5) == [0.2, 0.3, 0.3, 0.7, 0.7, 0.7]
    assert metrics.curve(one, 2) == [0.2, 0.3, 0.3]
    assert metrics.curve(record(start=None), 5) is None


@given(st.lists(st.tuples(st.floats(0, 1) | st.none(), st.booleans()), max_size=20), st.integers(1, 25))
def test_curves_rise_and_have_their_length(replies: list[tuple[float | None, bool]], evaluations: int) -> None:
    spent, steps = 1, []
    for fitness, duplicate in replies:
        spent += fitness is not None and not duplicate
        known = fitness if not duplicate else None
        steps.append(step(1, known, spent))
    values = metrics.curve(record(steps=tuple(steps)), evaluations)
    assert values is not None and len(values) == evaluations + 1
    assert all(a <= b for a, b in pairwise(values))
    reached = [s.fitness for s in steps if s.fitness is not None and s.evaluations <= evaluations + 1]
    assert values[-1] == max([0.2, *reached])


def test_gain_by_round() -> None:
    one = record(steps=(step(1, 0.5, 2), step(1, 0.4, 3), step(2, 0.3, 4), step(3, 0.9, 5)))
    two = record(steps=(step(1, 0.3, 2),))
    assert metrics.gain_by_round([one, two]) == pytest.approx([0.2, 0.0, 0.2])
    assert metrics.gain_by_round([]) == []


def test_distinct_children_do_not_count_copies_or_refusals() -> None:
    steps = (
        step(1, 0.3, 2, program="a"),
        step(1, 0.3, 2, program="a", duplicate=True),
        step(1, 0.2, 2, program="start", copy=True),
        step(1, None, 2),
        step(2, 0.4, 3, program="b"),
        step(2, 0.5, 4, program="c"),
        step(3, 0.5, 5, program="d"),
    )
    assert metrics.distinct_children([record(steps=steps)]) == pytest.approx((1 / 4 + 2 / 2) / 2)
    assert metrics.distinct_children([record(steps=(step(1, 0.1, 2),))]) is None


def test_entropy_weighs_tokens_not_replies() -> None:
    steps = (
        step(1, 0.1, 2, tokens=10, surprise=5.0),
        step(1, 0.1, 3, tokens=30, surprise=3.0),
        step(1, 0.1, 4, tokens=7),
    )
    assert metrics.entropy([record(steps=steps)]) == pytest.approx(8 / 40)
    assert metrics.entropy([record()]) is None


def test_the_summary_leaves_out_what_was_not_measured() -> None:
    steps = (
        step(1, 0.4, 2, distance=0.5),
        step(1, 0.1, 3, distance=0.25),
        step(1, None, 3, rejection="unchanged", copy=True, duplicate=True, distance=0.0),
        step(1, None, 3, rejection="no_code"),
    )
    found = metrics.summary(
        [
            record(hidden=1.0, hidden_speedup=2.0, steps=steps),
            record(hidden=0.5, hidden_speedup=9.0, task="t1"),
            record(hidden=None, hidden_right=None, hidden_start=None, task="t2"),
            record(hidden=1.0, hidden_speedup=8.0, task="t3"),
        ]
    )
    assert found["searches"] == 4 and found["measured"] == 3
    assert found["fitness"] == pytest.approx(2.5 / 3) and found["right"] == pytest.approx(2 / 3)
    assert found["gain"] == pytest.approx(2.5 / 3 - 0.2)
    assert found["speedup"] == pytest.approx(4.0)
    assert found["improving"] == 0.25 and found["copies"] == 0.25 and found["repeats"] == 0.25
    assert found["parsed"] == 0.75 and found["novelty"] == 0.25
    assert set(metrics.summary([])) == set(found) and metrics.summary([])["fitness"] is None


def test_tables_pair_by_seed_and_task() -> None:
    records = [record(seed=1, task="b", hidden=0.7), record(seed=0, task="a", hidden=None)]
    table = metrics.table_of(records, seeds=[0, 1], tasks=["a", "b"])
    assert table[1][1] == 0.7 and all(math.isnan(table[i][j]) for i, j in ((0, 0), (0, 1), (1, 0)))


def test_records_survive_json() -> None:
    one = record(steps=(step(1, 0.4, 2, distance=0.5, tokens=3, surprise=1.5), step(2, None, 2, rejection="empty")))
    assert SearchRecord.from_dict(json.loads(json.dumps(one.to_dict()))) == one
    bare = record()
    assert SearchRecord.from_dict(json.loads(json.dumps(bare.to_dict()))) == bare
    assert isinstance(one.steps[0], Step) and one.gain == pytest.approx(0.3)
