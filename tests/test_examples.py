"""The teaching files run, at their smallest size."""

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


def test_teaching_files_can_be_held_in_the_head() -> None:
    for file in EXAMPLES.glob("*.py"):
        assert len(file.read_text().splitlines()) < 250
