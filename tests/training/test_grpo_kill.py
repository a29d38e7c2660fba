"""kill -9 at every seam of a step: the run that goes on ends as one that was never stopped, in its events and in every weight."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="training needs torch (extra train)")

from safetensors.numpy import load_file

from coevo.runs import Run, State
from tests.training.killed import POINTS, SERVER
from tests.training.killed import run as trained
from tests.training.recipes import OWN_SEARCHES, recipe


def train(stage: Any, folder: Path, point: str = "", step: int = 0) -> int:
    config = recipe(
        stage,
        steps=10,
        states={"tasks": [str(stage.task)], **OWN_SEARCHES},
        evaluate={"tasks": [str(stage.other)], "every": 4, "samples": 2, "start": "program"},
        entropy={"floor": 0.8},
        filter={"name": "ema_threshold"},
        checkpoint_every=3,
        checkpoints=2,
    ).model_dump(mode="json")
    process = SERVER.Process(target=trained, args=(config, str(stage.policy), str(folder), point, step))
    process.start()
    process.join(600)
    assert process.exitcode is not None, "a training process hangs"
    return process.exitcode


def test_a_run_killed_at_every_seam_ends_as_the_uninterrupted_one(stage: Any, tmp_path: Path) -> None:
    whole, killed = tmp_path / "whole" / "run", tmp_path / "killed" / "run"
    assert train(stage, whole) == 0
    for point, step in POINTS:
        assert train(stage, killed, point, step) == -signal.SIGKILL, point
    assert train(stage, killed) == 0
    with Run.open(whole, write=False) as one, Run.open(killed, write=False) as other:
        assert other.state() is State.FINISHED
        assert one.digest() == other.digest()
        steps = [event.step for event in other.events(kinds=("update",))]
        assert steps == list(range(1, 11))
        spent, again = one.ledger.spent(), other.ledger.spent()
        assert {name: spent[name] for name in ("evaluations", "tokens")} == {
            name: again[name] for name in ("evaluations", "tokens")
        }
    for name in ("model.safetensors", "optimizer.safetensors"):
        a, b = (load_file(folder / "checkpoints" / "step-000010" / name) for folder in (whole, killed))
        assert a.keys() == b.keys()
        assert all((a[key] == b[key]).all() for key in a), name
