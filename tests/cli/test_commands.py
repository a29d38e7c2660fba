"""The real commands, from their arguments to what they print and the code they end with."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from coevo.cli import main
from coevo.runs import Run

LINE = {
    "task.yaml": "name: line\nkind: open\nentry: f\ndirection: max\nstatement: |\n  Define `f()`: a number, near 3.\ninstances: {public: [{}]}\n",
    "score.py": "def score(output, instance):\n    return 10 - abs(output - 3)\n",
    "program.py": "# EVOLVE-BLOCK-START\ndef f():\n    a = 0.5\n    b = 1.5\n    return a * b\n# EVOLVE-BLOCK-END\n",
}
TWO = LINE | {
    "program/program.py": "from helper import scale\n\n\ndef f():\n    return scale(0.5)\n",
    "program/helper.py": "def scale(x):\n    return x * 1.5\n",
}
del TWO["program.py"]
OPENEVOLVE = {
    "initial_program.py": "# EVOLVE-BLOCK-START\ndef f():\n    return 0.5\n# EVOLVE-BLOCK-END\n",
    "evaluator.py": """
import importlib.util


def evaluate(program_path):
    spec = importlib.util.spec_from_file_location("candidate", program_path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return {"combined_score": 1 / (1 + (module.f() - 2) ** 2)}
""",
}


class Said(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def json(self):
        """Standard output, which must be JSON and nothing else, with nothing on standard error."""
        assert self.err == ""
        return json.loads(self.out)

    def fact(self, key: str) -> str:
        return next(line.partition(": ")[2] for line in self.out.splitlines() if line.startswith(f"{key}: "))


Coevo = Callable[..., Said]


@pytest.fixture
def coevo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Coevo:
    """`coevo(*arguments)` in an empty working folder."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments: object) -> Said:
        monkeypatch.setattr(sys, "argv", ["coevo", *map(str, arguments)])
        code: object = 0
        try:
            main.run()
        except SystemExit as e:
            code = e.code or 0
        said = capfd.readouterr()
        assert isinstance(code, int)
        return Said(code, said.out, said.err)

    return call


def folder(name: str, files: dict[str, str]) -> Path:
    path = Path(name)
    for file, text in files.items():
        (path / file).parent.mkdir(parents=True, exist_ok=True)
        (path / file).write_text(text)
    return path


def evolve(coevo: Coevo, *arguments: object) -> Said:
    return coevo("evolve", *arguments, "--pool", "inline")


def test_a_search_its_files_and_all_that_can_be_done_with_them(coevo: Coevo) -> None:
    folder("line", LINE)
    first = evolve(coevo, "./line", "--budget", "evaluations=12", "--out", "run")
    assert first.code == 0 and first.err == ""
    assert float(first.fact("verified_best")) > float(first.fact("verified_start")) == 7.75
    assert first.fact("verdict") == "a gain on hidden tests"
    assert Path(first.fact("program")).is_file() and first.fact("resume") == "coevo resume run --budget evaluations=24"
    result = json.loads(Path("run/artifacts/result.json").read_text())
    assert result["evaluated"] == 12 and sum(row["asked"] for row in result["made"].values()) == result["steps"]

    judged = coevo("evaluate", "./line", first.fact("program"), "--json").json
    assert [e["split"] for e in judged["evaluations"]] == ["public", "hidden"]
    assert f"{judged['evaluations'][1]['score']:.6f}" == f"{float(first.fact('verified_best')):.6f}"

    more = coevo("resume", "run", "--budget", "evaluations=24", "--json").json
    assert more["evaluated"] == 24 and more["verified_best"] >= float(first.fact("verified_best"))
    assert coevo("status", "run", "--json").json["search"]["steps"] == more["steps"]

    again = coevo("replay", "run", "--workers", "1", "--json")
    assert again.code == 0 and again.json["same"] is True and again.json["best"] == more["best"]

    for table in ("events", "programs", "evaluations", "candidates"):
        said = coevo("export", "run", table, f"{table}.jsonl")
        assert said.code == 0 and len(Path(f"{table}.jsonl").read_text().splitlines()) == int(said.fact("rows")) > 12
    assert coevo("config", "run", "--json").json["task"]["ref"] == str(Path("line").resolve())


def test_a_run_that_was_left_with_work_in_flight_replays(coevo: Coevo) -> None:
    folder("line", LINE)
    assert evolve(coevo, "./line", "--budget", "evaluations=12", "--out", "run").code == 0
    with Run.open(Path("run"), write=True) as run:
        run.append(
            "evaluated", {"program": "0" * 16}
        )  # What a killed search had stored for a step that never committed.
    again = coevo("replay", "run", "--out", "again", "--workers", "1")
    assert again.code == 0 and again.fact("same") == "True"
    with Run.open(Path("again"), write=True) as run:
        run.append("candidate", {}, step=99)
        changed = run.digest(kinds=("candidate",))
    assert changed != again.fact("digest")


def test_a_program_of_two_files(coevo: Coevo) -> None:
    folder("two", TWO)
    assert coevo("tasks", "check", "./two").code == 0
    said = evolve(coevo, "./two", "--budget", "evaluations=12", "--out", "run")
    assert said.code == 0 and float(said.fact("verified_best")) > 7.75
    best = Path(said.fact("program"))
    assert sorted(p.name for p in best.iterdir()) == ["helper.py", "program.py"]
    judged = coevo("evaluate", "./two", best, "--split", "hidden", "--json").json
    assert f"{judged['evaluations'][0]['score']:.6f}" == f"{float(said.fact('verified_best')):.6f}"


def test_an_openevolve_folder(coevo: Coevo) -> None:
    folder("oe", OPENEVOLVE)
    said = evolve(coevo, "./oe", "--budget", "evaluations=10", "--json")
    assert said.code == 0 and said.json["verified_best"] > said.json["verified_start"]


def test_replies_of_a_script_and_their_tokens(coevo: Coevo) -> None:
    folder("line", LINE)
    replies = ["```python\ndef f():\n    return 2.9\n```", "no code today"]
    Path("replies.jsonl").write_text("".join(json.dumps({"text": text}) + "\n" for text in replies))
    said = evolve(
        coevo, "./line", "--model", "scripted:replies.jsonl", "--set", "proposers.rewrite=1",
        "--set", "steps=6", "--set", "stall=50", "--out", "run", "--json",
    )  # fmt: skip
    assert said.code == 0 and said.json["best"] == pytest.approx(9.9)
    made = said.json["made"]["rewrite"]
    assert made["asked"] == 6 and made["rejected"] > 0 and made["tokens"] > 0
    assert coevo("replay", "run", "--workers", "1", "--json").json["same"] is True


USAGE = [
    (("evolve", "circle_paking"), "Did you mean 'circle_packing'"),
    (("evolve", "circle_packing:n=x"), "not a whole number"),
    (("evolve", "./line", "--budget", "evals=3"), "Did you mean 'evaluations'"),
    (("evolve", "./line", "--budget", "usd=1,tokens=100"), "bounds nothing here"),
    (("evolve", "./line", "--set", "islnds=2"), "Did you mean 'islands'"),
    (("evolve", "./line", "--strategy", "evolv"), "strategy = 'evolv'"),
    (("evolve", "./line", "--model", "opnai:x"), "Did you mean 'openai'"),
    (("evolve", "./line", "--model", "openai:x@http://127.0.0.1:9/v1,prize_in=1"), "Did you mean 'price_in'"),
    (("evolve", "./line", "--model", "openai:x@http://127.0.0.1:9/v1", "--budget", "usd=1"), "cost nothing"),
    (("evolve", "./line", "--workers", "2", "--pool", "inline"), "give one of them"),
    (("evaluate", "./line", "nowhere.py"), "no program at nowhere.py"),
    (("evaluate", "./line", "line/program.py", "--split", "privat"), "Known: both, hidden, public"),
    (("status",), "make one with `coevo evolve TASK`"),
    (("config", "serch"), "Did you mean 'search'"),
    (("tasks", "list", "--kind", "opne"), "Did you mean 'open'"),
    (("tasks", "new", "line"), "not an empty folder"),
    (("tasks", "new", "other", "--kind", "proof"), "Known: function, open, stdio"),
    (("evolv",), "Did you mean 'evolve'"),
]


@pytest.mark.parametrize(("arguments", "words"), USAGE, ids=[" ".join(a) for a, _ in USAGE])
def test_wrong_use_ends_with_2_and_says_what_to_do(coevo: Coevo, arguments: tuple[str, ...], words: str) -> None:
    folder("line", LINE)
    said = coevo(*arguments)
    assert said.code == 2 and words in " ".join(said.err.split()) and said.out == ""
    assert not Path("runs").exists()


def test_what_fails_ends_with_1(coevo: Coevo) -> None:
    folder("line", LINE)
    said = coevo("status", "nowhere")
    assert said.code == 1 and "nowhere does not exist" in said.err
    said = evolve(
        coevo, "./line", "--model", "openai:x@http://127.0.0.1:9/v1,retries=0", "--set", "proposers.rewrite=1",
        "--set", "model_failures=3", "--out", "run",
    )  # fmt: skip
    assert said.code == 1 and "cannot connect to http://127.0.0.1:9/v1" in said.fact("stop")


def test_a_budget_that_buys_nothing_ends_with_3(coevo: Coevo) -> None:
    folder("line", LINE)
    said = evolve(coevo, "./line", "--budget", "cpu_minutes=0.001", "--out", "run")
    assert said.code == 3 and "cpu_minutes left" in said.fact("stop")
    again = coevo(*said.fact("resume").split()[1:], "--workers", "1")
    assert again.code == 0 and int(again.fact("evaluated")) >= 1  # The bound that is offered buys a step.


def test_a_failed_check_ends_with_4(coevo: Coevo) -> None:
    folder("line", LINE | {"score.py": "def score(output, instance):\n    return float('nan')\n"})
    said = coevo("tasks", "check", "./line", "--json")
    assert said.code == 4 and said.json[0]["ok"] is False
    assert any("nan" in check["detail"] for check in said.json[0]["checks"] if not check["ok"])


@pytest.mark.parametrize("kind", ["open", "function", "stdio"])
def test_a_new_task_names_the_files_to_edit(coevo: Coevo, kind: str) -> None:
    said = coevo("tasks", "new", "mine", "--kind", kind)
    assert said.code == 0 and said.fact("next") == "coevo tasks check mine"
    for file in Path("mine").iterdir():
        assert file.name in said.out
    assert coevo("tasks", "show", "mine", "--json").json["config"]["name"] == "mine"


def test_a_bound_that_the_next_step_would_pass_is_raised_by_the_resume_command(coevo: Coevo) -> None:
    folder("line", LINE)
    Path("replies.jsonl").write_text(json.dumps({"text": "```python\ndef f():\n    return 1\n```"}) + "\n")
    said = evolve(
        coevo, "./line", "--model", "scripted:replies.jsonl", "--set", "proposers.rewrite=1", "--out", "run",
        "--budget", "tokens=50000,evaluations=900",
    )  # fmt: skip
    assert said.code == 0 and "tokens left" in said.fact("stop")
    assert said.fact("resume") == "coevo resume run --budget evaluations=900,tokens=100000"


def test_helps_are_there_and_fit_a_narrow_terminal(coevo: Coevo, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    verbs = ["demo", "evolve", "evaluate", "doctor", "status", "resume", "replay", "export", "config", "tasks"]
    for words in [[], *([v] for v in verbs), *(["tasks", t] for t in ["list", "show", "check", "new", "import"])]:
        said = coevo(*words, "--help")
        assert said.code == 0 and "Usage:" in said.out, words
        assert max(map(len, said.out.splitlines())) <= 60
    for word in ("minutes", "tokens", "usd", "cpu_minutes", "proposals"):
        assert word in coevo("evolve", "--help").out


def test_a_reader_that_leaves_is_no_error() -> None:
    command = [sys.executable, "-m", "coevo.cli.main", "config", "search"]
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, check=False)
    os.close(write)
    assert done.returncode == 0 and done.stderr == b""


def test_nothing_heavy_is_imported_for_a_help() -> None:
    code = "import sys, coevo.cli.main; print([m for m in ('numpy', 'torch', 'pydantic', 'yaml', 'httpx') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
