"""An agent that is a command: a fresh worktree, walls, and a difference that becomes a change."""

import shutil
import sys
import tempfile
from pathlib import Path

import pytest

from coevo.diagnostics.types import Level
from coevo.errors import ConfigError, InfrastructureError
from coevo.lab.agents.command import CommandAgent
from coevo.lab.proposals import AgentReply, problems_of
from coevo.lab.settings import AgentConfig
from tests.lab.agents.briefing import brief, finding

needs_bwrap = pytest.mark.skipif(
    shutil.which("bwrap") is None, reason="the program bwrap (package bubblewrap) is missing"
)

FORM = """
import json, pathlib, sys
here = pathlib.Path(sys.argv[1])
told = json.loads((here / "brief.json").read_text())
form = {"family": "hyperparameter", "hypothesis": "h", "evidence": [next(iter(told["diagnosis"]["findings"]))],
        "prediction": {"metric": "truth", "direction": "up"}, "success": "s", "rollback": "r"}
"""
LOWER = (
    FORM
    + """
recipe = here / "harness/recipe.yaml"
recipe.write_text(recipe.read_text().replace("lr: 0.001", "lr: 0.0003"))
(here / "proposal.json").write_text(json.dumps(form))
"""
)
FILE = (
    FORM
    + """
(here / "harness/rewards/mine.py").write_text("def part(sample): return 1.0\\n")
(here / "proposal.json").write_text(json.dumps([{**form, "family": "reward"}]))
"""
)
BRIEF = brief(finding("dead-groups", Level.CRITICAL), files={"rewards/mine.py": "def part(sample): return 0.0\n"})


def agent(code: str, hidden: tuple[Path, ...] = (), **more: object) -> CommandAgent:
    settings = AgentConfig(kind="command", command=(sys.executable, "-c", code), **({"walls": "none"} | more))  # type: ignore[arg-type]
    return CommandAgent(settings, hidden=hidden)


def test_an_edited_recipe_is_the_change() -> None:
    [made] = agent(LOWER).propose(BRIEF)
    assert dict(made.change.sets) == {"lr": 0.0003} and not made.change.files
    assert problems_of(made, BRIEF) == []


def test_an_edited_file_is_the_change() -> None:
    [made] = agent(FILE).propose(BRIEF)
    assert dict(made.change.files) == {"rewards/mine.py": "def part(sample): return 1.0\n"} and not made.change.sets
    assert problems_of(made, BRIEF) == []


@needs_bwrap
def test_behind_walls_it_works_and_sees_neither_run_nor_tasks(tmp_path: Path) -> None:
    home = Path(__file__).parents[3]
    hidden = Path(tempfile.mkdtemp(prefix=".pytest-hidden-", dir=home))
    (hidden / "tests.jsonl").write_text("secret")
    try:
        code = (
            LOWER
            + f"""
import os
assert not os.path.exists({str(hidden / "tests.jsonl")!r}), "the tasks are visible"
assert not os.path.exists({str(tmp_path)!r}), "/tmp is visible"
import contextlib
for place in ({str(home / "written-by-agent")!r}, {str(home / "src" / "written-by-agent")!r}, {str(tmp_path / "written-by-agent")!r}):
    with contextlib.suppress(OSError):
        open(place, "w").write("out")
"""
        )
        [made] = agent(code, hidden=(hidden, tmp_path), walls="bubblewrap").propose(BRIEF)
        assert dict(made.change.sets) == {"lr": 0.0003}
        # What it wrote went nowhere: into a /tmp of its own, or was refused.
        assert not [p for p in (home, home / "src", tmp_path) if (p / "written-by-agent").exists()]
    finally:
        shutil.rmtree(hidden)


@needs_bwrap
def test_a_writable_folder_may_not_uncover_what_is_hidden(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="must not see"):
        agent(LOWER, hidden=(tmp_path / "run",), walls="bubblewrap", writable=(str(tmp_path),)).propose(BRIEF)


def test_secrets_of_the_environment_stay_out_unless_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_API_KEY", "k")
    code = 'import os\nassert "MY_API_KEY" not in os.environ, "leaked"\n' + LOWER
    assert agent(code).propose(BRIEF)
    with pytest.raises(InfrastructureError, match="leaked"):
        agent(code, environment=("MY_API_KEY",)).propose(BRIEF)


@pytest.mark.parametrize(
    ("code", "error", "names"),
    [
        ("pass", AgentReply, "proposal.json is missing"),
        ("raise SystemExit('no key')", InfrastructureError, "no key"),
        ("import time; time.sleep(60)", InfrastructureError, "agent.timeout_s"),
        ("import pathlib, sys; pathlib.Path(sys.argv[1], 'proposal.json').write_text('{')", AgentReply, "no JSON"),
        (
            "import pathlib, sys; pathlib.Path(sys.argv[1], 'proposal.json').write_text('['*100000)",
            AgentReply,
            "no JSON",
        ),
        (
            "import pathlib, sys; pathlib.Path(sys.argv[1], 'proposal.json').symlink_to('/etc/passwd')",
            AgentReply,
            "missing",
        ),
        (LOWER.replace("lr: 0.0003", "lr: [&a [*a]]"), AgentReply, "recipe.yaml"),
        (LOWER + "recipe.unlink()", AgentReply, "removed"),
    ],
)
def test_trouble_is_named(code: str, error: type[Exception], names: str) -> None:
    with pytest.raises(error, match=names):
        agent(code, timeout_s=1.5 if "sleep" in code else 20.0).propose(BRIEF)


def test_a_diagnostic_of_its_own() -> None:
    code = (
        FORM
        + """
made = {"id": "x-y", "title": "t", "formula": "f", "means": "m", "warn": 1, "critical": 2, "term": "mean(reward)"}
assert (here / "gap.md").read_text() == "the gap"
(here / "diagnostic.json").write_text(json.dumps(made))
"""
    )
    found = agent(code).propose_diagnostic(BRIEF, "the gap")
    assert found is not None and found.term == "mean(reward)"
    assert agent("pass").propose_diagnostic(BRIEF, "the gap") is None


def test_a_missing_program_is_named() -> None:
    with pytest.raises(ConfigError, match="no-such-agent"):
        CommandAgent(AgentConfig(kind="command", command=("no-such-agent",)))


def test_one_part_in_anothers_place_is_one_change() -> None:
    code = (
        FORM
        + """
recipe = here / "harness/recipe.yaml"
recipe.write_text(recipe.read_text().replace("search_gain:", "absolute:"))
(here / "proposal.json").write_text(json.dumps({**form, "family": "reward"}))
"""
    )
    [made] = agent(code).propose(BRIEF)
    assert dict(made.change.sets) == {"reward.parts": {"absolute": 1.0}}
    assert problems_of(made, BRIEF) == []


@pytest.mark.parametrize("walls", ["none", pytest.param("bubblewrap", marks=needs_bwrap)])
def test_a_script_named_from_here_runs_from_there(walls: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(LOWER)
    Path("mine.sh").write_text(f'#!/bin/sh\nexec {sys.executable} -c "$(cat {tmp_path}/mine.py)" "$1"\n')
    Path("mine.sh").chmod(0o755)
    settings = AgentConfig(kind="command", command=(sys.executable, "mine.py"), walls=walls)  # type: ignore[arg-type]
    [made] = CommandAgent(settings).propose(BRIEF)
    assert dict(made.change.sets) == {"lr": 0.0003}
    if walls == "none":
        [made] = CommandAgent(AgentConfig(kind="command", command=("./mine.sh",), walls="none")).propose(BRIEF)
        assert dict(made.change.sets) == {"lr": 0.0003}


@needs_bwrap
def test_a_command_in_a_hidden_folder_stays_hidden(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(LOWER)
    command = (sys.executable, str(tmp_path / "mine.py"))
    with pytest.raises(InfrastructureError, match=r"mine\.py"):
        CommandAgent(AgentConfig(kind="command", command=command), hidden=(tmp_path,)).propose(BRIEF)
