"""`coevo diagnose` as a command."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tests.diagnostics.test_diagnose import ATTACK, ROWS


def coevo(*args: str | Path, encoding: str = "utf-8") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "coevo.cli.main", *map(str, args)],
        capture_output=True,
        text=True,
        encoding=encoding,
        timeout=100,
        env={**os.environ, "PYTHONIOENCODING": encoding},
    )


def test_a_person_and_a_program_are_told_the_same(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    rows = [{**row, "reward": 0.2, "prompt": ATTACK[:6], "response": "x"} for row in ROWS]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    page = coevo("diagnose", path)
    assert page.returncode == 0 and not page.stderr
    order = [
        page.stdout.index(word)
        for word in ("CRITICAL", "Together:", "What it cannot know (", "\nfine:", "\nrollouts: 128")
    ]
    assert order == sorted(order) and "\x1b" not in page.stdout
    told = json.loads(coevo("diagnose", path, "--json").stdout)
    assert told["schema"] == 1 and told["findings"]["dead-groups"]["level"] == "critical" and told["answer"]
    blocked = coevo("diagnose", path, "--fail-on", "critical", encoding="ascii")
    assert blocked.returncode == 4 and "dead-groups" in blocked.stderr
    assert coevo("diagnose", path, "--only", "mixed-groups", "--fail-on", "warn").returncode == 0
    wrong = coevo("diagnose", tmp_path / "none")
    assert wrong.returncode == 2 and "none" in wrong.stderr
