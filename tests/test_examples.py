"""The teaching files run, at their smallest size."""

import re
import subprocess
import sys
from pathlib import Path

EXAMPLES = Path(__file__).parent.parent / "examples"


def test_evolve_loop_finds_something_better() -> None:
    done = subprocess.run(
        [sys.executable, EXAMPLES / "evolve_loop.py", "--steps", "60"], capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    facts = dict(line.split(": ", 1) for line in done.stdout.splitlines()[-3:])
    assert float(facts["best"]) >= float(facts["start"]) > 0
    assert int(facts["programs judged"]) > 30


def test_meta_loop_trains_on_its_own_searches(begun_mini: Path) -> None:
    sizes = ["--policy", begun_mini, "--tasks", "4", "--steps", "4"]
    done = subprocess.run(
        [sys.executable, EXAMPLES / "meta_loop.py", *sizes], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    facts = dict(line.split(": ", 1) for line in done.stdout.splitlines()[-3:])
    assert 0 <= float(facts["before"]) <= 1 and 0 <= float(facts["after"]) <= 1
    assert int(facts["programs judged"]) > 100
    assert "states from 4 searches" in done.stdout
    assert re.search(r"^step \d: mean gain", done.stdout, re.MULTILINE), "no step had anything to learn from"


def test_one_round_mends_a_leak() -> None:
    done = subprocess.run([sys.executable, EXAMPLES / "one_round.py"], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    facts = dict(line.split(": ", 1) for line in done.stdout.splitlines()[-3:])
    assert facts["change"] == "toy.leak" and facts["verdict"] == "promoted"
    assert float(facts["difference"]) > 0.05
    assert "critical: public-hidden-gap" in done.stdout


def test_teaching_files_can_be_held_in_the_head() -> None:
    for file in EXAMPLES.glob("*.py"):
        assert len(file.read_text().splitlines()) < 250
