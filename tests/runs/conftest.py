"""Shared makings of run tests."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from coevo.programs import Program
from coevo.runs import Budget, Run

MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
"""Where tests that make hundreds of runs put them: waiting for a disk would tell nothing more."""


@pytest.fixture
def make(tmp_path: Path):
    """Runs under tmp_path, closed at the end of the test."""
    made: list[Run] = []

    def create(name: str = "run", budget: Budget | None = None, **config: Any) -> Run:
        run = Run.create(tmp_path / name, kind="evolve", config=config, budget=budget)
        made.append(run)
        return run

    yield create
    for run in made:
        run.close()


@pytest.fixture
def path() -> Iterator[Path]:
    """Where a run may be made, in memory."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        yield Path(folder) / "run"


def program(i: int) -> Program:
    return Program.of(f"def f(x):\n    return x + {i}\n")


def write_step(run: Run, i: int, **extra: Any) -> None:
    """What a search stores for step i: a program, its evaluation, a reply, one event, and what it cost."""
    child = program(i)
    ticket = run.ledger.reserve("step", step=i, evaluations=1, tokens=100)
    with run.transaction():
        run.put_program(child)
        run.put_evaluation(
            child.id, split="public", seed=i, payload={"fitness": i / 7, "wall_s": extra.get("wall_s", 0.1)}
        )
        run.put_completion(f"step-{i}", {"text": f"add {i}", "tokens": 10})
        run.append("step", {"program": child.id, "reply": f"step-{i}", "wall_s": extra.get("wall_s", 0.1)}, step=i)
        run.ledger.settle(ticket, tokens=10)


Create = Callable[..., Run]
