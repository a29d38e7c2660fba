"""`coevo train`, `resume` and `status` of a training run, from arguments to exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

pytest.importorskip("torch", reason="training needs torch (extra train)")

from typer.testing import CliRunner

from coevo.cli import resume, status, train
from coevo.errors import ConfigError, UsageError
from tests.training.recipes import recipe

app = typer.Typer()
app.command("train")(train.train)
app.command("resume")(resume.resume)
app.command("status")(status.status)


def coevo(*args: Any, code: int = 0) -> str:
    found = CliRunner().invoke(app, [str(arg) for arg in args])
    if found.exception is not None and not isinstance(found.exception, SystemExit):
        raise found.exception
    assert found.exit_code == code, found.output
    return found.output


@pytest.fixture
def file(stage: Any, tmp_path: Path) -> Path:
    data = recipe(stage, checkpoint_every=1).model_dump(mode="json", exclude_defaults=True)
    path = tmp_path / "recipe.yaml"
    path.write_text(yaml.safe_dump(data))
    return path


def test_a_run_its_branch_and_their_status(stage: Any, file: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    held = f"evaluate={{tasks: [{stage.other}], every: 1, samples: 1}}"
    said = coevo("train", file, "--set", held, "--out", out)
    facts = dict(line.split(": ", 1) for line in said.splitlines() if ": " in line)
    assert facts["steps"] == "2" and facts["stop"] == "all 2 steps were made"
    assert facts["reward_before_filter"] and facts["reward_after_filter"] and facts["truth_on_hidden_tests"]
    assert "evaluation: fitness" in said and "step 2/2" in said
    assert f"--model local:{out}/checkpoints/step-00000" in facts["use"] and facts["use"].startswith("coevo evolve")
    told = json.loads(coevo("status", out, "--json"))
    assert told["kind"] == "train" and told["training"]["steps"] == "2 of 2"
    said = coevo("train", "--branch-from", f"{out}@1", "--set", "lr=1e-4", "--out", tmp_path / "branch")
    assert "branch of run@step-000001" in said and "changed: lr: 0.003 -> 0.0001" in said


def test_json_holds_everything_and_nothing_else_is_printed(file: Path, tmp_path: Path) -> None:
    facts = json.loads(coevo("train", file, "--set", "steps=1", "--out", tmp_path / "run", "--json"))
    assert facts["steps"] == 1 and facts["stopped_by"] == "steps" and facts["checkpoint"].endswith("step-000001")
    again = json.loads(coevo("resume", tmp_path / "run", "--json"))
    assert again["steps"] == 1 and again["metrics"]["reward_mean_first"] == facts["metrics"]["reward_mean_first"]


def test_exit_codes_and_errors_name_the_thing(file: Path, tmp_path: Path) -> None:
    coevo("train", file, "--out", tmp_path / "spent", "--budget", "evaluations=1", code=3)
    with pytest.raises(ConfigError, match="Did you mean 'group_size'"):
        coevo("train", file, "--set", "groupsize=4")
    coevo("train", file, "--set", "steps=1", "--out", tmp_path / "run")
    with pytest.raises(UsageError, match="step-000001"):
        coevo("train", "--branch-from", f"{tmp_path / 'run'}@7", "--out", tmp_path / "branch")
    with pytest.raises(ConfigError, match="set more: --set steps="):
        coevo("train", "--branch-from", tmp_path / "run", "--out", tmp_path / "branch")
    assert not (tmp_path / "branch").exists()
