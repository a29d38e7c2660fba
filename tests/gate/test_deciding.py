"""The fold: what it asks for, in which order, what it spends, and that nothing broken is promoted."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coevo.gate.checks.integrity import changed_leaves
from coevo.gate.deciding import AFTER, BEFORE, holdout_level, next_step
from coevo.gate.settings import GateConfig
from coevo.gate.testing import Plan
from coevo.gate.types import Ask, Calibration, Judgement, Status, Verdict
from tests.gate.driver import FAST, HOLDOUT, RECIPE, TASKS, arms, first, judge, look_at, solver

NOISE = Calibration(noise=0.14, false_promotions=0.04, low=0.02, high=0.07, trials=200, detectable=0.05)


def test_the_same_seen_gives_the_same_step() -> None:
    seen = first()
    asked = next_step(FAST, seen)
    assert isinstance(asked, Ask) and asked == next_step(FAST, seen)
    assert (asked.split, asked.number, asked.tasks, asked.samples) == ("gate", 1, TASKS, FAST.samples)
    look = look_at(asked, solver(), solver(0.02))
    assert next_step(FAST, seen._replace(looks=(look,))) == next_step(FAST, seen._replace(looks=(look,)))


def test_seeds_are_the_gates_own() -> None:
    def seed(**options: Any) -> int:
        step = next_step(FAST, first(**options))
        assert isinstance(step, Ask)
        return step.seed

    other = replace(arms()[1], name="b2")
    assert len({seed(), seed(seed=4), seed(subjects=(arms()[0], other))}) == 3


def test_the_holdout_is_asked_once_and_last_and_of_no_other() -> None:
    promoted, asks = judge(solver(), solver(0.2))
    assert [ask.split for ask in asks].count("holdout") == 1 and asks[-1].split == "holdout"
    assert asks[-1].tasks == HOLDOUT and asks[-1].samples == FAST.samples * FAST.looks
    rejected, asks = judge(solver(), solver(-0.2))
    assert rejected.verdict is Verdict.REJECTED and all(ask.split == "gate" for ask in asks)
    assert promoted.verdict is Verdict.PROMOTED and rejected.holdout_accesses == 0


def test_a_gain_that_the_holdout_does_not_show_is_not_promoted() -> None:
    def lucky(rng: Any, task: str) -> dict[str, Any]:
        return solver(0.2 if task in TASKS else 0.0)(rng, task)

    found, asks = judge(solver(), lucky)
    assert asks[-1].split == "holdout" and found.verdict in (Verdict.REJECTED, Verdict.INCONCLUSIVE)
    assert "not confirmed" in found.reasons[1]


@given(first_level=st.floats(0.001, 0.49))
def test_accesses_to_the_holdout_spend_a_bounded_sum(first_level: float) -> None:
    config = GateConfig(holdout_alpha=first_level)
    levels = [holdout_level(config, k) for k in range(1, 2000)]
    assert levels[0] == pytest.approx(first_level) and levels == sorted(levels, reverse=True)
    assert sum(levels) < 2 * first_level


def test_later_accesses_are_harder() -> None:
    """By the larger of the look's number and the lab's count."""
    seen = first(accesses=15)
    found, asks = judge(solver(), solver(0.2), seen=seen)
    assert asks[-1].number == 16 and found.holdout_accesses == 16
    level = next(c for c in found.checks if c.name == "holdout").numbers["alpha"]
    assert level == pytest.approx(holdout_level(FAST, 16))
    renumbered, _ = judge(
        solver(),
        solver(0.2),
        seen=seen,
        alter=lambda look: look._replace(number=1) if look.split == "holdout" else look,
    )
    assert next(c for c in renumbered.checks if c.name == "holdout").numbers["alpha"] == pytest.approx(level)


def test_a_holdout_worn_out_promotes_nothing_and_costs_nothing() -> None:
    step = next_step(FAST, first(accesses=FAST.holdout_most))
    assert isinstance(step, Judgement) and step.verdict is Verdict.INCONCLUSIVE and step.looks == 0
    assert not isinstance(next_step(GateConfig(holdout=False), first(accesses=99)), Judgement)


@pytest.mark.parametrize("options", [{"tasks": TASKS[:11]}, {"holdout": HOLDOUT[:11]}, {"tasks": (), "holdout": ()}])
def test_too_few_tasks_are_told_before_anything_is_measured(options: dict[str, Any]) -> None:
    step = next_step(FAST, first(**options))
    assert isinstance(step, Judgement) and step.verdict is Verdict.UNMEASURED and "needed" in step.reasons[0]


def test_siblings_share_alpha() -> None:
    def alpha(share: float) -> float:
        found, _ = judge(solver(), solver(0.2), seen=first(share=share))
        return next(c for c in found.checks if c.name == "gain").numbers["alpha"]

    assert alpha(0.25) == pytest.approx(alpha(1.0) / 4) == pytest.approx(FAST.alpha / 4)
    assert alpha(40.0) == pytest.approx(FAST.alpha), "a share is never more than all"


def test_a_gain_not_worth_having_is_rejected() -> None:
    config = GateConfig(min_gain=0.25)
    found, _ = judge(solver(), solver(0.1), config=config, seen=first(config))
    assert found.verdict is Verdict.REJECTED and "0.25" in found.reasons[0]


def test_inconclusive_says_what_would_settle_it() -> None:
    few = TASKS[:14]
    found = next(
        f
        for seed in range(20)
        for f, _ in [judge(solver(), solver(0.06), seen=first(tasks=few, calibration=NOISE), seed=seed)]
        if f.verdict is Verdict.INCONCLUSIVE and f.difference and f.difference > 0
    )
    assert found.to_settle is not None and found.to_settle > 14
    assert found.detectable == pytest.approx(Plan.of(FAST, FAST.alpha).drift(0.8) * 0.14 / 14**0.5)


def test_a_judgement_is_plain_json() -> None:
    for gain in (0.2, -0.2):
        found, _ = judge(solver(), solver(gain))
        data = json.loads(json.dumps(found.to_dict(), allow_nan=False))
        assert data["verdict"] == str(found.verdict) and data["checks"][0]["name"] == "integrity.splits"


def test_check_names_are_in_the_order_of_the_gate() -> None:
    found, _ = judge(solver(), solver(0.2))
    order = ["integrity", "health", "truth", "integrity", "health", "truth", "non_regression", "gain", "holdout"]
    kinds = [check.name.partition(".")[0] for check in found.checks]
    assert [kind for i, kind in enumerate(kinds) if i == 0 or kinds[i - 1] != kind] == order


ALL = [(stage.module, name) for stage in (*BEFORE, *AFTER) for name in stage.functions]


@pytest.mark.parametrize(("module", "name"), ALL, ids=lambda x: x if isinstance(x, str) else "")
@pytest.mark.parametrize("how", ["raises", "says nothing", "says yes"])
def test_a_broken_check_promotes_nothing(module: Any, name: str, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The child is far better, and all other checks pass."""

    def broken(config: Any, seen: Any) -> Any:
        if how == "raises":
            raise ZeroDivisionError("a bug")
        return None if how == "says nothing" else True

    monkeypatch.setattr(module, name, broken)
    found, asks = judge(solver(), solver(0.3), seen=first(tasks=TASKS[:14], holdout=HOLDOUT[:14]))
    assert found.verdict is Verdict.UNMEASURED
    assert any(check.status is Status.BROKEN and check.name.endswith(name) for check in found.checks)
    assert len(asks) <= 1 and any("the check itself failed" in reason for reason in found.reasons)


@pytest.mark.parametrize("part", ["cumulated", "walk", "estimate"])
def test_a_broken_test_promotes_nothing(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from coevo.gate import deciding

    def broken(*args: Any, **options: Any) -> Any:
        raise FloatingPointError("a bug")

    monkeypatch.setattr(deciding, part, broken)
    found, _ = judge(solver(), solver(0.3))
    assert found.verdict is Verdict.UNMEASURED and "the test itself failed" in found.reasons[0]


garbage = st.sampled_from([None, 3, "x", float("nan"), {}, {"gate-0": (float("inf"),)}, {"gate-0": "yes"}, ((1, 2),)])


@settings(max_examples=60, deadline=None)
@given(
    part=st.sampled_from(
        ["parent", "child", "number", "split", "child_frame", "recipe", "sealed", "origins", "training"]
    ),
    what=garbage,
)
def test_nonsense_is_never_promoted_and_never_raises(part: str, what: Any) -> None:
    """A driver with a bug, or a branch that left something strange, in an otherwise convincing case."""
    seen = first(tasks=TASKS[:14], holdout=HOLDOUT[:14])
    if part in ("recipe", "sealed", "origins", "training"):
        seen = seen._replace(child=replace(seen.child, **{part: what}))
        step = next_step(FAST, seen)
        assert isinstance(step, Ask) or step.verdict in (Verdict.INVALID, Verdict.UNMEASURED)
        return
    step = next_step(FAST, seen)
    assert isinstance(step, Ask)
    look = look_at(step, solver(), solver(0.4))._replace(**{part: what})
    judged = next_step(FAST, seen._replace(looks=(look,)))
    if part == "child_frame" and what is None:
        return
    assert isinstance(judged, Judgement) and judged.verdict in (Verdict.INVALID, Verdict.UNMEASURED)
    json.dumps(judged.to_dict(), allow_nan=False)


leaves = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(0, 3), st.text(max_size=2), st.lists(st.integers(0, 2), max_size=2)
    ),
    lambda inner: st.dictionaries(st.sampled_from(["a", "b", "c"]), inner, min_size=1, max_size=3),
    max_leaves=6,
)
recipes = st.dictionaries(st.sampled_from(["x", "y", "z"]), leaves, max_size=3)


@given(before=recipes, after=recipes)
def test_leaves_that_differ_are_found_both_ways(before: dict[str, Any], after: dict[str, Any]) -> None:
    found = dict(changed_leaves(before, after))
    back = dict(changed_leaves(after, before))
    assert {name: pair[::-1] for name, pair in found.items()} == back
    assert (not found) == (before == after)
    assert not dict(changed_leaves(before, json.loads(json.dumps(before))))


def test_a_leaf_that_appears_counts_as_one() -> None:
    assert [n for n, _ in changed_leaves(RECIPE, {**RECIPE, "loss": {"kl": 0.1, "clip": 0.2}})] == [
        "loss.kl",
        "loss.clip",
    ]
    assert [n for n, _ in changed_leaves({"a": (1, 2)}, {"a": [1, 2]})] == []
