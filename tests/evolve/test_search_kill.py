"""kill -9 at random moments: the resumed run ends as the uninterrupted one, and nothing is paid for twice."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from coevo.runs import Run, State
from tests.evolve.killed import BUDGET
from tests.evolve.problems import line_task

ROOT = Path(__file__).resolve().parents[2]
KILLS = 25


def start(task: Path, run: Path, workers: int, schedule: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.evolve.killed", str(task), str(run), str(workers), schedule]
    return subprocess.Popen(command, cwd=ROOT, start_new_session=True, stderr=subprocess.PIPE)


def finish(process: subprocess.Popen[bytes]) -> None:
    _, errors = process.communicate(timeout=120)
    assert process.returncode == 0, errors.decode()


def rows(folder: Path) -> int:
    """How much a run holds; 0 before it exists. Read while another process writes."""
    try:
        with Run.open(folder, write=False) as run:
            counts = run.counts()
            return counts["events"] + counts["evaluations"]
    except Exception:
        return 0


def kill_after(process: subprocess.Popen[bytes], folder: Path, goal: int, pause: float) -> bool:
    """Kill -9 once the run holds `goal` rows and a moment has passed; False when it ended before."""
    while process.poll() is None and rows(folder) < goal:
        time.sleep(0.002)
    time.sleep(pause)
    alive = process.poll() is None
    if alive:
        os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    return alive


@pytest.mark.parametrize(("schedule", "kills"), [("rounds", KILLS - 12), ("steady", 12)])
def test_killed_and_resumed_runs_end_as_the_uninterrupted_one(tmp_path: Path, schedule: str, kills: int) -> None:
    task = tmp_path / "line"
    line_task(task)
    finish(start(task, tmp_path / "whole", 0, schedule))
    with Run.open(tmp_path / "whole", write=False) as run:
        expected, total = run.digest(), rows(tmp_path / "whole")
        spent = run.ledger.spent()
    rng, folder, killed = random.Random(len(schedule)), tmp_path / "killed", 0
    goals = sorted(rng.randrange(2, total) for _ in range(kills))
    for number, goal in enumerate(goals):
        killed += kill_after(start(task, folder, number % 3, schedule), folder, goal, rng.random() * 0.02)
    finish(start(task, folder, 2, schedule))
    assert killed >= kills // 2
    with Run.open(folder, write=False) as run:
        assert run.digest() == expected
        assert run.state() is not State.RUNNING
        now = run.ledger.spent()
        assert {k: now[k] for k in ("evaluations", "proposals", "tokens", "usd")} == {
            k: spent[k] for k in ("evaluations", "proposals", "tokens", "usd")
        }
        assert now["evaluations"] <= BUDGET.evaluations and now["tokens"] <= BUDGET.tokens
        steps = [event.step for event in run.events(kinds=["candidate"])]
        assert steps == list(range(len(steps)))
        judged = Counter(event.payload["program"] for event in run.events(kinds=["evaluated"]))
        assert max(judged.values()) == 1
