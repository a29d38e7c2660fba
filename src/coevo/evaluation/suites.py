"""Which tests a task has: those written down, and those its generator makes. A function of the task and the split.

The public tests of a task are the same for every program and every seed, so that a search compares like with like; so are
the hidden ones, which differ from them. Only timing inputs and the instances' own randomness follow the evaluation's seed.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from coevo.errors import TaskError
from coevo.evaluation.trusted import JUDGE_ERRORS, judge_function, load_judge_file
from coevo.sandbox.types import Call
from coevo.streams import stream
from coevo.tasks.types import Kind, Split, Task, Test

SUITE_SEED = 20_260_101
"""Of all generated tests. Fixed: changing it changes every task."""


class Pending:
    """The expected answer of a generated test until the reference has given it."""

    def __repr__(self) -> str:
        return "PENDING"


PENDING = Pending()

Generator = Callable[[int, random.Random], Any]


def make_tests(task: Task, split: Split, generate: Generator | None) -> list[Test]:
    """The tests of a split; generated ones still have `PENDING` as the expected answer.

    A task without hidden tests of its own gets new ones from its generator at the public sizes; one that has no
    generator either is measured on its public tests again.
    """
    tests = [t for t in task.written_tests if t.split == split]
    generated = task.config.tests.get(split)
    if generated is None and split == "hidden" and not tests:
        generated = task.config.tests.get("public")
        if generated is None:
            return [replace(t, split=split) for t in task.written_tests if t.split == "public"]
    if generated is not None and generate is not None:
        for size in generated.sizes:
            for k in range(generated.repeat):
                rng = stream(SUITE_SEED, "test", task.name, split, size, k)
                name = f"size {size}" + (f" #{k + 1}" if generated.repeat > 1 else "")
                tests.append(generate_test(task, generate, size, rng, split, name))
    if not tests:
        raise TaskError(
            f"task {task.name!r} has no {split} tests: write tests.jsonl, or generate.py with `tests: {split}`"
        )
    return tests


def timing_tests(task: Task, generate: Generator, *, split: Split, seed: int, run: int) -> list[Test]:
    """Fresh inputs for one timed run of the evaluation with this seed."""
    timing = task.config.timing
    if timing is None:
        raise TaskError(f"task {task.name!r} has no `timing`: its speed is not measured")
    return [
        generate_test(
            task, generate, timing.size, stream(seed, "timing", task.name, split, run, k), split, f"timing {k + 1}"
        )
        for k in range(timing.inputs)
    ]


def load_generator(task: Task) -> Generator | None:
    """The `generate` of kinds function and stdio, if the task has one."""
    path = task.folder / "generate.py"
    return judge_function(load_judge_file(path), "generate") if path.is_file() else None


def generate_test(task: Task, generate: Generator, size: int, rng: random.Random, split: Split, name: str) -> Test:
    """One call of a task's generator, checked."""
    where = f"{task.folder / 'generate.py'}: generate({size}, rng)"
    try:
        made = generate(size, rng)
    except JUDGE_ERRORS as e:
        raise TaskError(f"{where} raised {type(e).__name__}: {e}") from e
    if task.kind is Kind.STDIO:
        if not isinstance(made, str):
            raise TaskError(f"{where} must return standard input as a str, not a {type(made).__name__}")
        return Test(split, stdin=made, expected=PENDING, name=name)
    if not isinstance(made, tuple):
        raise TaskError(
            f"{where} must return a tuple of arguments, not a {type(made).__name__}; write `return (x,)` for one"
        )
    return Test(split, args=made, expected=PENDING, name=name)


def make_instances(task: Task, split: Split) -> list[dict[str, Any]]:
    """Keyword arguments of the entry, for kind open. Without hidden instances, the public ones are used again."""
    found = list(task.config.instances.get(split, []))
    path = task.folder / "generate.py"
    if path.is_file():
        make = judge_function(load_judge_file(path), "instances")
        try:
            made = make(split, stream(SUITE_SEED, "instances", split))
        except JUDGE_ERRORS as e:
            raise TaskError(f"{path}: instances({split!r}, rng) raised {type(e).__name__}: {e}") from e
        if not isinstance(made, list) or not all(isinstance(kwargs, dict) for kwargs in made):
            raise TaskError(
                f"{path}: instances({split!r}, rng) must return a list of dicts (keyword arguments of the entry)"
            )
        found += made
    if found or split == "public":
        return found or [{}]
    return make_instances(task, "public")


def call_of(test: Test) -> Call:
    return Call(tuple(test.args), dict(test.kwargs))
