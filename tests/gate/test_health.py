"""Diagnostics as the gate hears them: what makes a gain unreal counts, what says how training may go on does not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from coevo.diagnostics.diagnose import diagnose
from coevo.diagnostics.registry import shipped
from coevo.diagnostics.types import Level
from coevo.evidence.rows import frame_of
from coevo.evidence.types import Frame
from coevo.gate.checks import health
from coevo.gate.deciding import next_step
from coevo.gate.types import Check, Judgement, Status, Verdict
from coevo.streams import array_stream
from tests.gate.driver import FAST, arms, first


def training(seed: int, *, leak: bool = False, solved: bool = False, lost: float = 0.0, noisy: bool = False) -> Frame:
    """A learning run of 20 steps; with a leak, reward and public fitness rise and truth does not."""
    rng, rows = array_stream(seed, "training"), []
    for step in range(20):
        for group in range(8):
            rate = 1.0 if solved else 0.25 + 0.02 * step + 0.2 * rng.random()
            for sample in range(8):
                truth = float(rng.random() < (0.25 if leak else rate))
                seen = max(truth, float(rng.random() < rate)) if leak else truth
                down = rng.random() < lost
                where: dict[str, Any] = {
                    "step": step,
                    "task": f"train-{group}",
                    "group": f"{step}-{group}",
                    "sample": sample,
                }
                paid = float(rng.random()) - 0.3 * truth if noisy else seen
                score = {"reward": paid, "fitness": seen, "truth": truth, "advantage": seen - rate}
                rest = {"split": "train", "tokens": int(rng.integers(50, 90)), "stop_reason": "stop", "kept": True}
                lostly = dict.fromkeys(score) if down else score
                text = {"prompt": f"Task {group}.", "response": f"print({rng.integers(1 << 40)})"}
                rows.append({**where, **lostly, **rest, **text, "unmeasured_reason": "down" if down else ""})
    return frame_of(rows)


def checked(child: Frame, parent: Frame | None) -> Check:
    before, after = arms(training=child)
    return health.diagnostics(FAST, first(subjects=(replace(before, training=parent), after)))


def test_a_healthy_child_passes() -> None:
    assert checked(training(1), training(2)).status is Status.PASSED
    assert checked(training(1), None).status is Status.PASSED


def test_rollouts_are_diagnosed_once_for_all_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The gate asks before each look and each verdict; of the same rows the answer is the same."""
    from coevo.diagnostics import diagnose as module

    asked: list[int] = []
    monkeypatch.setattr(module, "diagnose", lambda frame: asked.append(frame.rows) or diagnose(frame))
    child, parent = training(1), training(2, leak=True)
    found = [checked(child, parent) for _ in range(3)]
    assert len(asked) == 2 and found[0] == found[1] == found[2]
    half = np.arange(child.rows) % 2 == 0
    assert checked(child.where(half), parent) and asked[2:] == [int(half.sum())], "other rows are asked anew"


def test_a_reward_that_orders_replies_badly_makes_no_gain_unreal() -> None:
    """It is a bad teacher; truth, which the gate measures itself, is none the less what it is."""
    found = checked(training(1, noisy=True), training(2))
    assert found.status is Status.PASSED and "reward-truth-agreement" in found.reason


def test_a_leak_that_the_parent_did_not_have_fails() -> None:
    found = checked(training(1, leak=True), training(2))
    assert found.status is Status.FAILED and "public-hidden-gap" in found.reason
    assert checked(training(1, leak=True), training(2, leak=True)).status is Status.PASSED, "it is not new"
    step = next_step(
        FAST, first(subjects=(replace(arms()[0], training=training(2)), arms(training=training(1, leak=True))[1]))
    )
    assert isinstance(step, Judgement) and step.verdict is Verdict.INVALID and step.looks == 0


def test_a_child_that_has_learned_everything_is_no_invalid_child() -> None:
    done = training(1, solved=True)
    assert "dead-groups" in {f.diagnostic for f in diagnose(done).at(Level.CRITICAL)}
    found = checked(done, training(2))
    assert found.status is Status.PASSED and "dead-groups" in found.reason


def test_training_that_was_not_measured_is_unmeasured() -> None:
    seen = first(subjects=arms(training=training(1, lost=0.2)))
    assert health.rows(FAST, seen).status is Status.UNMEASURED
    assert health.rows(FAST, first(subjects=arms(training=training(1, lost=0.05)))).status is Status.PASSED
    assert health.rows(FAST, first(subjects=arms(training=frame_of([])))).status is Status.FAILED
    assert health.rows(FAST, first()).status is Status.UNKNOWN
    assert health.rows(FAST, first(promised=("training",))).status is Status.FAILED


def test_what_is_held_against_a_child_is_shipped() -> None:
    assert set(shipped()) >= health.UNREAL
    assert np.all([shipped()[name].means for name in health.UNREAL])
