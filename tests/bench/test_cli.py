"""The command, from arguments to exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from typer.testing import CliRunner

from coevo.cli.bench import bench, resume
from coevo.errors import ConfigError, GateBlocked, UsageError
from tests.bench.made import scripted_study

app = typer.Typer()
app.command("bench")(bench)


def run(*arguments: object) -> Any:
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A small study as a file."""
    config = scripted_study(tmp_path, arms=["search", "best_of_n"], seeds=1, probe={"states": 0})
    data = config.model_dump(mode="json") | {
        "suite": {"name": "mini", "test": {"id": ["mini:test:2"]}, "unseen": [], "ngram": None}
    }
    path = tmp_path / "study.yaml"
    path.write_text(yaml.safe_dump(data))
    return path


def test_a_study_from_a_file_prints_tables_and_writes_results(file: Path, tmp_path: Path) -> None:
    out, results = tmp_path / "runs" / "x", tmp_path / "results"
    found = run(file, "--out", out, "--results", results, "--seeds", 2)
    assert found.exit_code == 0, found.output
    assert "minimum detectable effect" not in found.output and "Unknown: no pilot was made" in found.output
    assert "best_of_n\\tuntrained\\tindependent".replace("\\t", "\t") in found.output
    assert "ended: finished" in found.output and "units: 4 of 4" in found.output
    assert (results / "README.md").exists() and (out / "artifacts" / "results.json").exists()
    assert f"coevo bench {file} --seeds 2" in (results / "README.md").read_text()
    again = run(file, "--out", out, "--seeds", 2, "--json")
    assert again.exit_code == 0
    report = json.loads(again.stdout)
    assert report["complete"] and report["seeds"] == 2 and report["ended"] == "finished"


def test_minutes_that_do_not_suffice_end_with_3_and_the_command_that_goes_on(
    file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = run(file, "--out", tmp_path / "x", "--minutes", 0.00001)
    assert found.exit_code == 3, found.output
    assert "ended: minutes" in found.output and f"resume: coevo bench {file} --out {tmp_path / 'x'}" in found.output
    resume(tmp_path / "x", json=True)
    report = json.loads(capsys.readouterr().out)
    assert report["complete"] and report["ended"] == "finished"


def test_what_cannot_be_meant_is_said(file: Path, tmp_path: Path) -> None:
    assert isinstance(run("meat").exception, ConfigError)
    assert isinstance(run(file, "--quick").exception, UsageError)
    assert isinstance(run(file, "--arms", "serach").exception, ConfigError)
    assert isinstance(run(file, "--set", "evaluations=1").exception, ConfigError)
    assert run(file, "--out", tmp_path / "x").exit_code == 0
    (tmp_path / "x").rename(tmp_path / "y")
    refused = run(file, "--out", tmp_path / "x")
    assert isinstance(refused.exception, GateBlocked) and "--force-holdout" in str(refused.exception)
    forced = run(file, "--out", tmp_path / "x", "--force-holdout")
    assert forced.exit_code == 0 and "TOUCHED MORE THAN ONCE" in forced.output
