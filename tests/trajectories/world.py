"""Small tasks, answers and searches for tests of data synthesis; everything is judged in the real sandbox."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from coevo.evolution.session import Setup as Search
from coevo.evolution.session import begin as begin_search
from coevo.evolution.settings import SearchConfig
from coevo.runs import Budget
from coevo.tasks import load_task
from coevo.tasks.types import Task
from coevo.trajectories.settings import SynthConfig

STATEMENTS = {
    "add": "Return the sum of the two whole numbers a and b, which may be negative, as a whole number in every case that can occur.",
    "mul": "Return the product of both integers; do not loop over either of them, for they can be very large or below zero.",
    "sub": "Given a minuend a and a subtrahend b, compute the difference a minus b and return it without any rounding at all.",
    "big": "Of two numbers find the greater one. When they are equal, any of them will do, since nobody could tell them apart.",
}
RULES = {"add": "a + b", "mul": "a * b", "sub": "a - b", "big": "max(a, b)"}
PAIRS = [(0, 0), (1, 2), (5, 3), (-4, 7)]


def make_task(folder: Path, name: str, *, statement: str = "", tags: str = "") -> Task:
    """Kind function, untimed, with four public tests; the start returns a."""
    path = folder / name
    path.mkdir(parents=True, exist_ok=True)
    rule = RULES[name.split("_")[0]]
    (path / "task.yaml").write_text(
        f"name: {name}\nkind: function\nentry: solve\nstatement: |\n  {statement or STATEMENTS[name]}\n"
        f"limits: {{cpu_s: 2, memory_mb: 128}}\n{tags}"
    )
    (path / "program.py").write_text("def solve(a, b):\n    return a\n")
    (path / "reference.py").write_text(f"def solve(a, b):\n    return {rule}\n")
    tests = [("public", pair) for pair in PAIRS] + [("hidden", (9, -2))]
    lines = [
        json.dumps({"split": split, "args": [a, b], "expected": eval(rule, {"a": a, "b": b, "max": max})})
        for split, (a, b) in tests
    ]
    (path / "tests.jsonl").write_text("\n".join(lines) + "\n")
    return load_task(path)


def make_tasks(folder: Path, names: tuple[str, ...] = ("add", "mul", "sub", "big")) -> list[str]:
    return [str(make_task(folder, name).folder) for name in names]


EXPRESSIONS = (
    *("a + b", "a * b", "a - b", "max(a, b)", "b", "0", "a + b + 0", "abs(a - b)", "a // (b or 1)"),
    *("min(a, b)", "a or b", "a and b", "1 // 0", "a ** 2 - b", "sum((a, b))", "-b"),
)


def reply(expression: str, note: str = "") -> str:
    return f"Here:\n\n```python\ndef solve(a, b):\n    # {note}\n    return {expression}\n```\n"


REPLIES = [*(reply(e, str(i)) for i, e in enumerate(EXPRESSIONS)), "I cannot help with that.", "Just prose.", ""]


def script(folder: Path, replies: list[str] = REPLIES, delay_s: float = 0.0) -> str:
    """The spec of a scripted model with these replies."""
    path = folder / f"script-{len(replies)}-{delay_s}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [{"text": text} | ({"delay_s": delay_s} if delay_s else {}) for text in replies]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return f"scripted:{path},max_tokens=200"


LOOSE: dict[str, Any] = {"samples": 12, "batch": 8, "mix": {"right": None}, "diversity": {"nearest": 0.0}}
"""Settings under which small sets keep rows."""


def config(**changes: Any) -> SynthConfig:
    return SynthConfig.model_validate({**LOOSE, **changes})


def search(task: Task, out: Path, *, models: tuple[str, ...] = (), steps: int = 24, **settings: Any) -> Path:
    """A finished search."""
    found = SearchConfig.model_validate(
        {"steps": steps, "batch": 4, "islands": 2, "verify": False, "migrate_every": 2, **settings}
    )
    setup = Search.of(task, models=models, search=found, pool="inline")
    with begin_search(setup, Budget(), out, task=task) as session:
        session.go(None)
    return out
