"""A driver for the gate: measures what it asks for in a made-up world, with real evidence rows where they are wanted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from coevo.evidence.rows import frame_of
from coevo.gate.deciding import next_step
from coevo.gate.settings import GateConfig
from coevo.gate.types import Ask, Calibration, Judgement, Look, Seen, Subject
from coevo.streams import array_stream

Row = dict[str, Any]
Policy = Callable[[np.random.Generator, str], Row]
"""One rollout on a task: at least `truth`."""

TASKS = tuple(f"gate-{i}" for i in range(48))
HOLDOUT = tuple(f"holdout-{i}" for i in range(48))
FAST = GateConfig()


def u_shaped(task: str) -> float:
    """A task's pass rate: U-shaped, mean 0.34, the same for everyone who asks."""
    return float(array_stream(11, "rate", task).beta(0.35, 0.68))


def solver(gain: float = 0.0, **columns: Any) -> Policy:
    """Passes a task at its rate, raised by `gain`; an honest row says the same in all its columns."""

    def policy(rng: np.random.Generator, task: str) -> Row:
        truth = float(rng.random() < min(1.0, max(0.0, u_shaped(task) + gain)))
        return {"truth": truth, "fitness": truth, "reward": truth, "contract_ok": True, **columns}

    return policy


RECIPE = {"trainer": "grpo", "lr": 1e-5, "seed": 1, "reward": {"parts": {"search_gain": 1.0}}, "group_size": 8}
SEALED = {"judge": "j" * 64, "splits": "s" * 64, "gate": "g" * 64, "budget": "b" * 64}


def arms(**changes: Any) -> tuple[Subject, Subject]:
    """An honest parent and child of a lab: one leaf changed, as declared."""
    parent = Subject("b0", recipe=RECIPE, files={"rewards/a.py": "1"}, sealed=SEALED, base_weights="w0")
    child = replace(
        parent, name="b1", recipe={**RECIPE, "lr": 2e-5}, origins=("w1",), base_weights="w1", declared=("lr",)
    )
    return parent, replace(child, **changes)


def look_at(ask: Ask, parent: Policy, child: Policy, seed: int = 0) -> Look:
    """What a driver measures: rows of both arms, and their truth by task."""
    rows: dict[str, list[Row]] = {"parent": [], "child": []}
    for arm, policy in (("parent", parent), ("child", child)):
        rng = array_stream(ask.seed, "rollouts", arm, seed)
        for task in ask.tasks:
            for i in range(ask.samples):
                row = {"task": task, "split": ask.split, "group": task, "sample": i, "unmeasured_reason": ""}
                rows[arm].append({**row, **policy(rng, task)})
    values = {arm: values_of(found) for arm, found in rows.items()}
    return Look(
        ask.split, ask.number, values["parent"], values["child"], frame_of(rows["parent"]), frame_of(rows["child"])
    )


def values_of(rows: Sequence[Row]) -> dict[str, tuple[float | None, ...]]:
    found: dict[str, list[float | None]] = {}
    for row in rows:
        found.setdefault(row["task"], []).append(None if row["unmeasured_reason"] else row["truth"])
    return {task: tuple(values) for task, values in found.items()}


def first(
    config: GateConfig = FAST,
    subjects: tuple[Subject, Subject] | None = None,
    *,
    tasks: Sequence[str] = TASKS,
    holdout: Sequence[str] = HOLDOUT,
    accesses: int = 0,
    calibration: Calibration | None = None,
    seed: int = 3,
    share: float = 1.0,
    answers: Mapping[str, tuple[str, ...]] | None = None,
    decoys: Mapping[str, tuple[str, ...]] | None = None,
    promised: tuple[str, ...] = ("recipe", "sealed", "base_weights"),
) -> Seen:
    """What the gate sees before any look."""
    parent, child = subjects or arms()
    return Seen(
        *(parent, child, tasks, holdout, (), accesses, calibration, seed, share),
        answers=dict(answers or {}),
        decoys=dict(decoys or {}),
        promised=promised,
    )


def judge(
    parent: Policy,
    child: Policy,
    *,
    config: GateConfig = FAST,
    seen: Seen | None = None,
    alter: Callable[[Look], Look] = lambda look: look,
    seed: int = 0,
) -> tuple[Judgement, list[Ask]]:
    """The whole way to a verdict, and what was asked for on it."""
    seen = seen if seen is not None else first(config)
    asks: list[Ask] = []
    while isinstance(step := next_step(config, seen), Ask):
        asks.append(step)
        assert len(asks) <= config.looks + 1, "the gate asks for ever"
        look = alter(look_at(step, parent, child, seed))
        accesses = seen.holdout_accesses + (step.split == "holdout")
        seen = seen._replace(looks=(*seen.looks, look), holdout_accesses=accesses)
    return step, asks
