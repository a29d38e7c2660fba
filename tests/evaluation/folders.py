"""Task folders for tests, written as a user would write them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import yaml

from coevo.tasks import load_task
from coevo.tasks.types import Task


def make_task(folder: Path, config: dict[str, Any], **files: str) -> Task:
    """A task folder: `config` is task.yaml (name and statement have defaults); `program_py="..."` is program.py."""
    folder.mkdir(parents=True, exist_ok=True)
    full = {"name": folder.name, "statement": f"Write {config.get('entry', 'a script')}.", **config}
    (folder / "task.yaml").write_text(yaml.safe_dump(full))
    for name, text in files.items():
        stem, _, ending = name.rpartition("_")
        (folder / f"{stem}.{ending}").write_text(text)
    return load_task(folder)


def lines(*tests: dict[str, Any]) -> str:
    """tests.jsonl."""
    return "".join(json.dumps(test) + "\n" for test in tests)


TOTAL_GENERATE = """
def generate(size, rng):
    return ([rng.randrange(-1000, 1000) for _ in range(size)],)
"""

TOTAL = "def total(items):\n    return sum(items)\n"


def total_task(folder: Path, **config: Any) -> Task:
    """Sum a list. Six public and five hidden tests, most of them generated."""
    return make_task(
        folder,
        {
            "kind": "function",
            "entry": "total",
            "tests": {"public": {"sizes": [1, 5, 20, 50]}, "hidden": {"sizes": [2, 8, 30, 60]}},
            "limits": {"cpu_s": 0.5, "wall_s": 60.0, "memory_mb": 128},
            **config,
        },
        program_py="def total(items):\n    s = 0\n    for x in items:\n        s += x\n    return s\n",
        reference_py=TOTAL,
        generate_py=TOTAL_GENERATE,
        tests_jsonl=lines(
            {"split": "public", "args": [[]], "expected": 0, "name": "empty"},
            {"split": "public", "args": [[10**30, 7]], "expected": 10**30 + 7, "name": "big"},
            {"split": "hidden", "args": [[5, 5]], "expected": 10, "name": "twins"},
        ),
    )
