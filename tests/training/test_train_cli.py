"""`coevo train`, `resume` and `status` of a training run, from arguments to exit codes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml

pytest.importorskip("torch", reason="training needs torch (extra train)")

from typer.testing import CliRunner

from coevo.cli import resume, status, train
from coevo.errors import ConfigError, UsageError
from coevo.runs import Run
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
    assert f"--model local:{out}/checkpoints/step-00000" in facts["use"]
    assert facts["use"].startswith(f"coevo evolve {stage.other} ")
    assert facts["more"] == f"coevo train --branch-from {out} --set steps=4" and "resume" not in facts
    assert facts["verdict"].startswith("too few steps")
    told = json.loads(coevo("status", out, "--json"))
    assert told["kind"] == "train" and told["training"]["steps"] == "2 of 2"
    assert told["resume"] is None and told["training"]["verdict"].startswith("too few steps")
    said = coevo("train", "--branch-from", f"{out}@1", "--set", "lr=1e-4", "--out", tmp_path / "branch")
    assert "branch of run@step-000001" in said and "changed: lr: 0.003 -> 0.0001" in said


def test_json_holds_everything_and_nothing_else_is_printed(file: Path, tmp_path: Path) -> None:
    facts = json.loads(coevo("train", file, "--set", "steps=1", "--out", tmp_path / "run", "--json"))
    assert facts["steps"] == 1 and facts["stopped_by"] == "steps" and facts["checkpoint"].endswith("step-000001")
    again = json.loads(coevo("resume", tmp_path / "run", "--json"))
    assert again["steps"] == 1 and again["metrics"]["reward_mean_first"] == facts["metrics"]["reward_mean_first"]


def test_of_a_folder_of_tasks_the_next_command_names_one(stage: Any, file: Path, tmp_path: Path) -> None:
    some = f"states={{tasks: [{stage.task.parent}]}}"
    facts = json.loads(coevo("train", file, "--set", some, "--set", "steps=1", "--out", tmp_path / "run", "--json"))
    assert facts["use"].startswith(f"coevo evolve {stage.task} --model local:")


def test_a_recipe_without_tasks_is_refused_before_a_model_is_made(tmp_path: Path) -> None:
    for given, what in (
        ((), "nothing to train on: name tasks with --task"),
        (("--task", "TASKS"), "unknown task 'TASKS'"),
    ):
        with pytest.raises(UsageError, match=what):
            coevo("train", "--base", "mini", *given, "--out", tmp_path / "run")


def test_a_reply_takes_half_of_a_small_context_unless_told_otherwise(stage: Any, file: Path, tmp_path: Path) -> None:
    data = yaml.safe_load(file.read_text())
    file.write_text(yaml.safe_dump({**data, "episode": {"temperature": 1.0}, "steps": 1}))
    said = coevo("train", file, "--out", tmp_path / "run")
    assert "replies of up to 256" in said and "episode.max_tokens: 256, half of the model's context of 512" in said
    with Run.open(tmp_path / "run", write=False) as run:
        assert run.config["recipe"]["episode"]["max_tokens"] == 256
    with pytest.raises(ConfigError, match="set it to 256 or less"):
        coevo("train", file, "--set", "episode.max_tokens=1024", "--out", tmp_path / "over")


def test_exit_codes_and_errors_name_the_thing(file: Path, tmp_path: Path) -> None:
    coevo("train", file, "--out", tmp_path / "spent", "--budget", "evaluations=1", code=3)
    with pytest.raises(ConfigError, match="Did you mean 'group_size'"):
        coevo("train", file, "--set", "groupsize=4")
    coevo("train", file, "--set", "steps=1", "--out", tmp_path / "run")
    with pytest.raises(UsageError, match="step-000001"):
        coevo("train", "--branch-from", f"{tmp_path / 'run'}@7", "--out", tmp_path / "branch")
    with pytest.raises(UsageError, match="no best checkpoint: nothing was evaluated; it has step-000001"):
        coevo("train", "--branch-from", f"{tmp_path / 'run'}@best", "--out", tmp_path / "branch")
    with pytest.raises(ConfigError, match="set more: --set steps="):
        coevo("train", "--branch-from", tmp_path / "run", "--out", tmp_path / "branch")
    assert not (tmp_path / "branch").exists()


def test_a_recipe_finds_its_base_on_a_server_of_the_same_base(
    stage: Any, file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TINKER_API_KEY", raising=False)
    monkeypatch.chdir(stage.policy.parent)
    base = f"./{stage.policy.name}"
    command = [sys.executable, "-m", "coevo.cli.main", "serve", base, "--port", "0", "--device", "cpu"]
    with subprocess.Popen(
        [*command, "--folder", str(tmp_path / "served")], stdout=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stdout is not None
            url = server.stdout.readline().removeprefix("url: ").strip()
            far = ("--base", base, "--set", "engine.name=tinker", "--set", f"engine.url={url}", "--set", "steps=1")
            assert "stop: all 1 steps were made" in coevo("train", file, *far, "--out", tmp_path / "run")
        finally:
            server.send_signal(signal.SIGINT)
        assert server.wait(120) == 0
