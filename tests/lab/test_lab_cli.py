from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from coevo.cli.main import app
from coevo.lab.preflight import preflight
from tests.lab.small_lab import SMALL, config

pytestmark = pytest.mark.skipif(shutil.which("git") is None, reason="needs the git binary")


def call(*words: str, code: int = 0) -> str:
    found = CliRunner().invoke(app, list(words))
    assert found.exit_code == code, (found.output, found.exception)
    return found.output


def test_new_run_status_approve_resume(tmp_path: Path) -> None:
    settings, lab = tmp_path / "lab.yaml", str(tmp_path / "lab")
    settings.write_text(json.dumps({**SMALL, "calibration": 0}))
    said = call("lab", "new", lab, "--config", str(settings), "--set", "approve=design")
    assert "budget: 1 round (6 steps first, then at most 12 a round)" in said and "calibration is off" in said
    assert "next: coevo lab run" in said
    waiting = call("lab", "run", lab, code=4)
    assert "b0: step 6 of 6" in waiting and "ended: waiting" in waiting
    facts = json.loads(call("lab", "status", lab, "--json"))
    assert facts["waiting_for"] == "design" and facts["branches"][0]["branch"] == "b0"
    assert "waiting_for: design" in call("status", lab)
    assert "answer: rejected" in call("lab", "approve", lab, "--reject")
    assert json.loads(call("resume", lab, "--json"))["ended"] == "finished"
    assert "next: finish" in call("lab", "status", lab)
    assert call("lab", "run", lab).count("ended: finished") == 1


def test_what_cannot_work_is_told(tmp_path: Path) -> None:
    from coevo.errors import ConfigError, StoreError, UsageError

    def error(*words: str) -> BaseException | None:
        return CliRunner().invoke(app, list(words)).exception

    lab = str(tmp_path / "lab")
    assert isinstance(found := error("lab", "new", lab, "--set", "nonsense=1"), ConfigError) and "nonsense" in str(
        found
    )
    assert isinstance(error("lab", "status", lab), StoreError)
    assert "tasks.train" in str(error("lab", "new", lab, "--set", "recipe.trainer=grpo"))
    call("lab", "new", lab, "--set", "recipe.trainer=toy")
    assert isinstance(error("lab", "run", lab, "--set", "steps=3"), UsageError)
    assert isinstance(error("lab", "approve", lab), UsageError)


def test_preflight_counts_what_the_steps_pay() -> None:
    plan = preflight(config(budget={"rounds": 9, "steps": 37}, branches=2))
    assert (plan.rounds, plan.steps_round) == (2, 18)  # 6 first, 18 for a whole round, 12 for a control and one child.
    plan = preflight(config(budget={"rounds": 9, "steps": 29}, branches=2))
    assert plan.rounds == 1 and "pays 1 of 9" in plan.warnings[0]
    assert not preflight(config()).warnings
