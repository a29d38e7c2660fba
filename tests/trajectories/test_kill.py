"""kill -9 at random moments: the resumed synthesis ends with the bytes of the uninterrupted one."""

from __future__ import annotations

import multiprocessing
import random
import signal
import time
from collections import Counter
from multiprocessing.process import BaseProcess
from pathlib import Path

from coevo.runs import Run, State
from coevo.tasks import load_task
from tests.trajectories import synthesizing, world

KILLS = 8

_server = multiprocessing.get_context("forkserver")
_server.set_forkserver_preload(["tests.trajectories.synthesizing"])


def start(arguments: tuple, folder: Path, workers: int) -> BaseProcess:
    process = _server.Process(target=synthesizing.run, args=(*arguments, str(folder), workers))
    process.start()
    return process


def finish(process: BaseProcess) -> None:
    process.join(120)
    assert process.exitcode == 0


def events(folder: Path) -> int:
    try:
        with Run.open(folder, write=False) as run:
            return run.counts()["events"]
    except Exception:
        return 0


def kill_at(process: BaseProcess, folder: Path, goal: int, pause: float) -> bool:
    """Kill -9 once the run holds `goal` events and a moment has passed; False when it ended before."""
    while process.is_alive() and events(folder) < goal:
        time.sleep(0.003)
    time.sleep(pause)
    process.kill()
    process.join()
    return process.exitcode == -signal.SIGKILL


def data(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((folder / "data").iterdir())}


def test_killed_and_resumed_syntheses_end_with_the_same_bytes(tmp_path: Path) -> None:
    tasks = world.make_tasks(tmp_path / "tasks")
    search = world.search(load_task(tasks[0]), tmp_path / "search", models=(world.script(tmp_path),), steps=16)
    arguments = (tasks, world.script(tmp_path, delay_s=0.005), str(search))
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    finish(start(arguments, whole, 0))
    expected, total = data(whole), events(whole)
    assert len(expected) == 2
    rng, hits = random.Random(1), 0
    for number, goal in enumerate(sorted(rng.randrange(2, total) for _ in range(KILLS))):
        hits += kill_at(start(arguments, killed, 2 * (number % 4 == 3)), killed, goal, rng.random() * 0.01)
    assert hits >= KILLS // 2
    finish(start(arguments, killed, 2))
    assert data(killed) == expected
    assert (killed / "README.md").read_text() == (whole / "README.md").read_text()
    with Run.open(killed, write=False) as run, Run.open(whole, write=False) as other:
        assert run.state() is State.FINISHED
        spent, once = run.ledger.spent(), other.ledger.spent()
        assert {k: spent[k] for k in ("evaluations", "tokens")} == {k: once[k] for k in ("evaluations", "tokens")}
        judged = Counter((e.payload["program"], e.payload["task"]) for e in run.events(kinds=["evaluated"]))
        assert max(judged.values()) == 1
        steps = [event.step for event in run.events(kinds=["answer"])]
        assert steps == sorted(set(steps))
