"""kill -9 at random moments: the resumed run ends as the uninterrupted one, and nothing is paid for twice."""

from __future__ import annotations

import multiprocessing
import random
import signal
import time
from collections import Counter
from multiprocessing.process import BaseProcess
from pathlib import Path

import pytest

from coevo.runs import Run, State
from tests.evolution import killed
from tests.evolution.killed import BUDGET
from tests.evolution.problems import line_task

KILLS = 25

_server = multiprocessing.get_context("forkserver")
_server.set_forkserver_preload(["tests.evolution.killed"])


def start(task: Path, folder: Path, workers: int, schedule: str) -> BaseProcess:
    process = _server.Process(target=killed.run, args=(str(task), str(folder), workers, schedule))
    process.start()
    return process


def finish(process: BaseProcess) -> None:
    process.join(600)
    assert process.exitcode == 0


def rows(folder: Path) -> int:
    """How much a run holds; 0 before it exists. Read while another process writes."""
    try:
        with Run.open(folder, write=False) as run:
            counts = run.counts()
            return counts["events"] + counts["evaluations"]
    except Exception:
        return 0


def kill_after(process: BaseProcess, folder: Path, goal: int, pause: float) -> bool:
    """Kill -9 once the run holds `goal` rows and a moment has passed; False when it ended before."""
    while process.is_alive() and rows(folder) < goal:
        time.sleep(0.005)
    time.sleep(pause)
    process.kill()
    process.join()
    return process.exitcode == -signal.SIGKILL


@pytest.mark.parametrize(("schedule", "kills"), [("rounds", KILLS - 16), ("steady", 8), ("early", 8)])
def test_killed_and_resumed_runs_end_as_the_uninterrupted_one(tmp_path: Path, schedule: str, kills: int) -> None:
    task = tmp_path / "line"
    line_task(task)
    finish(start(task, tmp_path / "whole", 0, schedule))
    with Run.open(tmp_path / "whole", write=False) as run:
        expected, total = run.digest(), rows(tmp_path / "whole")
        spent = run.ledger.spent()
    rng, folder, hits = random.Random(len(schedule)), tmp_path / "killed", 0
    goals = sorted(rng.randrange(2, total) for _ in range(kills))
    for number, goal in enumerate(goals):
        hits += kill_after(start(task, folder, 2 * (number % 6 == 5), schedule), folder, goal, rng.random() * 0.02)
    finish(start(task, folder, 2, schedule))
    assert hits >= kills // 2
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
