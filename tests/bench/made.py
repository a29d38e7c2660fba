"""Records made by hand, and small studies that a scripted model can play."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from coevo.bench.settings import StudyConfig
from coevo.bench.types import SearchRecord, Step
from coevo.config import parse
from coevo.models.scripted import Scripted, write_script


def step(round: int, fitness: float | None, evaluations: int, **more: Any) -> Step:
    program = more.pop("program", f"p{evaluations}" if fitness is not None else "")
    return Step(round, "rewrite", program, fitness, more.pop("parent_fitness", 0.2), evaluations=evaluations, **more)


def record(
    arm: str = "search",
    seed: int = 0,
    task: str = "t0",
    *,
    hidden: float | None = 0.5,
    steps: tuple[Step, ...] = (),
    suite: str = "ood",
    start: float | None = 0.2,
    **more: Any,
) -> SearchRecord:
    values: dict[str, Any] = {"best": hidden, "hidden_start": 0.2, "hidden_right": hidden == 1.0, **more}
    return SearchRecord(arm, seed, suite, task, task, "budget", start, hidden_best=hidden, steps=steps, **values)


GOOD = "def solve(k, a, b):\n    return [a + b, a - b, b - a, max(a, b), min(a, b), a * b][(k * {n}) % 6]\n"


def scripted_study(folder: Path, **changes: Any) -> StudyConfig:
    """Three untrained arms on a few mini puzzles, with replies from a script."""
    script = folder / "replies.jsonl"
    replies = [Scripted(f"```python\n{GOOD.format(n=n)}```") for n in range(1, 6)]
    write_script(script, [*replies, Scripted("I would rather not."), Scripted("```python\ndef solve(:\n```")])
    settings: dict[str, Any] = {
        "name": "scripted",
        "model": f"scripted:{script}",
        "arms": ["best_of_n", "self_refine", "search"],
        "seeds": 2,
        "suite": {
            "name": "mini",
            "validation": ["mini:validation:3"],
            "test": {"id": ["mini:test:3"], "ood": ["mini:unseen:4"]},
            "ngram": None,
        },
        "evaluations": 5,
        "proposals": 8,
        "probe": {"states": 4, "samples": 2},
        "parallel": 4,
        "pool": "inline",
    }
    return parse(StudyConfig, settings | changes, where="test")
