"""`coevo synth`, from its arguments to what it prints and the code it ends with."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import typer

from coevo.cli import resume as resume_verb
from coevo.cli import synth as verb
from coevo.errors import CoevoError
from coevo.tasks import load_task
from coevo.trajectories.folder import read_manifest, read_states
from tests.trajectories import world

app = typer.Typer(pretty_exceptions_enable=False)
app.command("synth")(verb.synth)
app.command("resume")(resume_verb.resume)


@pytest.fixture
def coevo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]):
    """`coevo(*arguments)` in a working folder with four tasks: exit code and output."""
    monkeypatch.chdir(tmp_path)
    world.make_tasks(Path("tasks"))
    world.script(tmp_path)

    def call(*arguments: object) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["coevo", *map(str, arguments)])
        code: object = 0
        try:
            app()
        except SystemExit as e:
            code = e.code or 0
        except CoevoError as e:
            print(f"error: {e}")
            code = e.exit_code
        assert isinstance(code, int)
        return code, capfd.readouterr().out

    return call


MODEL = "scripted:script-19-0.0.jsonl,max_tokens=200"
COMMON = ("--model", MODEL, "--pool", "inline", "--set", "mix.right=null", "--samples", "8")


def fact(out: str, key: str) -> str:
    return next(line.partition(": ")[2] for line in out.splitlines() if line.startswith(f"{key}: "))


def test_counts_and_the_next_step(coevo) -> None:
    world.search(load_task("./tasks/add"), Path("search"), models=(MODEL,), steps=12)
    code, out = coevo("synth", "tasks", *COMMON, "--from", "search", "--out", "set")
    assert code == 0, out
    assert out.startswith("4 tasks, 1 search -> set\n") and "answers\tscored\t" in out
    rows = list(read_states("set", split="train"))
    assert int(fact(out, "rows_train")) == len(rows)
    tasks = Path("tasks").resolve()
    assert fact(out, "next") == (
        f"coevo train --base local --task {tasks} --set states.trajectories=[set] --set 'states.mix={{search: 0.5, synth: 0.5}}'"
    )
    command = read_manifest("set")["command"]
    assert (
        command.startswith("coevo synth tasks --model scripted:script-19-0.0.jsonl")
        and command in Path("set/README.md").read_text()
    )
    code, out = coevo("synth", "tasks", *COMMON, "--out", "set")
    assert code == 1 and "holds a run already. Go on with `coevo resume set`" in out


def test_json_budget_and_resume(coevo) -> None:
    code, out = coevo("synth", "tasks", *COMMON, "--out", "set", "--budget", "evaluations=14", "--json")
    facts = json.loads(out)
    assert code == 0 and facts["resume"] == "coevo resume set" and "evaluations=14" in facts["stop"]
    code, out = coevo("resume", "set", "--budget", "evaluations=200", "--json")
    whole = json.loads(out)
    assert code == 0 and "stop" not in whole and whole["rows_train"] > facts["rows_train"]
    assert whole["counts"]["answers"]["answers"] == 32
    assert coevo("synth", "tasks", *COMMON, "--out", "none", "--budget", "tokens=5")[0] == 3


def test_answers_settings_and_refusals(coevo) -> None:
    lines = [{"task": name, "program": f"def solve(a, b):\n    return {e}\n"} for name in ("add", "mul") for e in "ab0"]
    Path("answers.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    Path("settings.yaml").write_text("mix: {right: null}\ndiversity: {measure: none}\n")
    given = ("synth", "tasks", "--answers", "answers.jsonl", "--config", "settings.yaml", "--workers", "1")
    code, out = coevo(*given, "--seed", "4")
    assert code == 0, out
    assert fact(out, "folder") == "runs/synth-1" and read_manifest("runs/synth-1")["seed"] == 4
    assert read_manifest("runs/synth-1")["settings"]["diversity"]["measure"] == "none"
    code, out = coevo(*given, "--strict", "--against", "tasks/mul")
    assert code == 4 and "contamination: statement of task 'mul'" in out
    code, out = coevo(*given, "--set", "mix.wrong=1")
    assert code == 2 and "unknown setting 'mix.wrong'" in out
    code, out = coevo(*given, "--pool", "inline")
    assert code == 2 and "say the same thing" in out
    code, out = coevo("synth", "tasks")
    assert code == 2 and "nothing to synthesize from" in out
