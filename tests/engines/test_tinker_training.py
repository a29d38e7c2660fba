"""The trainer over a Tinker server: the same run as with the engine in this process, and one that goes on after the server died."""

from __future__ import annotations

from typing import Any

import pytest

from coevo.engines.settings import EngineConfig
from coevo.engines.tinker_server import serve
from coevo.errors import ModelError
from coevo.runs import Run
from tests.training.recipes import recipe

CHANGES: dict[str, Any] = {"steps": 4, "checkpoint_every": 2, "loss": {"name": "dapo", "kl": 0.01}, "epochs": 2}


@pytest.fixture(scope="module")
def stage(tmp_path_factory):
    from tests.training.conftest import Stage
    from tests.training.tiny_policy import make_policy, write_task

    root = tmp_path_factory.mktemp("stage")
    task, other = write_task(root / "tasks" / "three", (4, 7, 2)), write_task(root / "held" / "other", (1, 5, 5))
    return Stage(make_policy(root / "policy"), task, other)


@pytest.fixture(autouse=True)
def _no_key(monkeypatch):
    monkeypatch.delenv("TINKER_API_KEY", raising=False)


def rollouts(path) -> list[tuple]:
    with Run.open(path, write=False) as run:
        return [
            (row["step"], row["group"], row["sample"], row["response"], row["reward"])
            for row in run.rollouts(split="train")
        ]


def test_a_run_over_a_server_is_the_run_of_this_process(stage, tmp_path):
    from coevo.training.session import train

    near = train(recipe(stage, **CHANGES), tmp_path / "near")
    with serve(stage.policy, EngineConfig(device="cpu"), folder=tmp_path / "served") as server:
        engine = {"name": "tinker", "url": server.url, "patience_s": 5}
        far = train(recipe(stage, **CHANGES, engine=engine), tmp_path / "far")
    assert near.steps == far.steps == 4 and far.exit_code == 0
    mine, theirs = rollouts(tmp_path / "far"), rollouts(tmp_path / "near")
    assert min(len(mine), len(theirs)) >= 48
    assert [row for row in mine if row[0] == 1] == [row for row in theirs if row[0] == 1]
    # after an update the last bits of its sums may move a draw across a boundary between two tokens
    assert sum(a == b for a, b in zip(mine, theirs, strict=False)) >= 0.5 * len(mine)


def test_a_run_goes_on_after_its_server_died(stage, tmp_path):
    from coevo.training.session import resume, train

    served = serve(stage.policy, EngineConfig(device="cpu"), folder=tmp_path / "served")
    port = int(served.url.rpartition(":")[2])
    engine = {"name": "tinker", "url": served.url, "patience_s": 0.3}
    steps = []

    def observer(progress) -> None:
        steps.append(progress.step)
        if progress.step == 3:
            served.close()

    with pytest.raises(ModelError, match=r"Tinker server .*(cannot connect|connection broke)"):
        train(recipe(stage, **CHANGES, engine=engine), tmp_path / "run", observer=observer)
    again = serve(stage.policy, EngineConfig(device="cpu"), folder=tmp_path / "served", port=port)
    with again, resume(tmp_path / "run") as session:
        made = session.go()
    assert made.steps == 4 and made.exit_code == 0 and steps == [1, 2, 3]
