"""SIGTERM and Ctrl-C: the first lets the step end, a second ends it at once; either way the run goes on as if nothing had been."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

pytest.importorskip("torch", reason="training needs torch (extra train)")

from coevo.runs import Run, State
from coevo.training import session
from tests.training.recipes import recipe

REWARD = """
import os, time

def reward(sample):
    while os.path.exists({gate!r}):
        open({gate!r} + ".seen", "w").close()
        time.sleep(0.01)
    return sample.fitness or 0.0
"""


@pytest.fixture
def plan(stage: Any, tmp_path: Path) -> Path:
    """A recipe whose reward waits for as long as the file `gate` is there."""
    (tmp_path / "own.py").write_text(REWARD.format(gate=str(tmp_path / "gate")))
    part = f"{tmp_path / 'own.py'}:reward"
    settings = {"parts": {part: 1.0}, "timeout_s": 100.0}
    data = recipe(stage, steps=3, reward=settings, allow_cheats=True).model_dump(mode="json", exclude_defaults=True)
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(data))
    return tmp_path / "recipe.yaml"


@contextmanager
def in_a_step(plan: Path, out: Path) -> Iterator[subprocess.Popen[str]]:
    """The command, whose first step waits in its reward."""
    (plan.parent / "gate").touch()
    command = [sys.executable, "-m", "coevo.cli.main", "train", str(plan), "--out", str(out)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            while not (plan.parent / "gate.seen").exists():
                assert process.poll() is None, process.stderr and process.stderr.read()
                time.sleep(0.02)
            yield process
        finally:
            process.kill()


def told_to_stop(process: subprocess.Popen[str]) -> None:
    assert process.stderr is not None
    while "stopping: what is in flight is finished first" not in process.stderr.readline():
        assert process.poll() is None


def test_a_second_signal_ends_the_step_at_once(plan: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    with in_a_step(plan, out) as process:
        process.send_signal(signal.SIGTERM)
        told_to_stop(process)
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 130  # The reward would wait for ever.
    (plan.parent / "gate").unlink()
    with Run.open(out, write=False) as run:
        assert run.state() is State.STOPPED and not list(run.events(kinds=("batch", "update")))
    assert session.go_on(out).steps == 3
    with Run.open(out, write=False) as run:
        session.train(session.Setup.read(run).recipe, tmp_path / "whole" / "run")
        with Run.open(tmp_path / "whole" / "run", write=False) as whole:
            assert run.digest() == whole.digest()


def test_the_first_signal_lets_the_step_end(plan: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    with in_a_step(plan, out) as process:
        process.send_signal(signal.SIGTERM)
        told_to_stop(process)
        os.unlink(plan.parent / "gate")
        assert process.wait(100) == 0
        assert process.stdout is not None and "stop: asked to stop by SIGTERM" in process.stdout.read()
    with Run.open(out, write=False) as run:
        assert [event.step for event in run.events(kinds=("update",))] == [1]
    assert (out / "checkpoints" / "step-000001").is_dir()
