"""`check_task` passes good tasks and catches planted faults, each by the check that is meant to."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from coevo.evaluation.check import CheckResult, check_task, literal
from coevo.programs import Program
from coevo.tasks.types import BestKnown, Task
from tests.evaluation.folders import TOTAL_GENERATE, lines, make_task, total_task

OPEN_SCORE = """
def score(output, instance):
    if not isinstance(output, list) or len(output) != instance["n"]:
        raise ValueError("n numbers are wanted")
    if not all(type(x) is float and 0 <= x <= 1 for x in output):
        raise ValueError("numbers in 0..1 are wanted")
    return sum(output)
"""


def open_task(
    folder: Path, score: str = OPEN_SCORE, program: str = "def f(n):\n    return [0.5] * n\n", **config
) -> Task:
    base = {
        "kind": "open",
        "entry": "f",
        "instances": {"public": [{"n": 5}]},
        "best_known": {"value": 5.0, "source": "trivial"},
        "limits": {"cpu_s": 2.0, "memory_mb": 128},
    }
    return make_task(folder, {**base, **config}, program_py=program, score_py=score)


def bad(task: Task) -> dict[str, str]:
    """Names and details of the failed checks."""
    return {r.name: r.detail for r in check_task(task, timing=False) if not r.ok}


def test_good_tasks_pass(tmp_path: Path) -> None:
    results = check_task(total_task(tmp_path / "total"))
    assert all(r.ok for r in results), results
    assert {"reference", "start", "deterministic", "splits", "limits", "refuses an always-equal object"} <= {
        r.name for r in results
    }
    results = check_task(open_task(tmp_path / "open"))
    assert all(r.ok for r in results), results
    assert {"start", "repeatable", "refuses a NaN", "refuses an early exit"} <= {r.name for r in results}


def test_a_timed_task_is_timed(tmp_path: Path) -> None:
    slow = total_task(tmp_path / "total", timing={"size": 1000, "inputs": 1})
    timing = {r.name: r for r in check_task(slow)}["timing"]
    assert not timing.ok and "choose a timing size" in timing.detail


def test_a_stdio_task(tmp_path: Path) -> None:
    task = make_task(
        tmp_path / "echo",
        {"kind": "stdio"},
        program_py="print(input())\n",
        tests_jsonl=lines(
            {"split": "public", "stdin": "a\n", "stdout": "a\n"},
            {"split": "public", "stdin": "b\n", "stdout": "b\n"},
            {"split": "hidden", "stdin": "c\n", "stdout": "c\n"},
        ),
    )
    assert list(bad(task)) == ["refuses an echo of the input"]


@pytest.mark.parametrize(
    ("change", "name", "said"),
    [
        ({"reference": Program.of("def total(items):\n    return 0\n")}, "reference", "fails the public test 'big'"),
        ({"start": Program.of("def total(items):\n    return len(items)\n")}, "start", "test 'big'"),
        ({"start": Program.of("def total(items):\n    return items[0]\n")}, "start", "IndexError"),
    ],
)
def test_wrong_programs_of_the_task(tmp_path: Path, change, name: str, said: str) -> None:
    found = bad(replace(total_task(tmp_path / "total"), **change))
    assert list(found) == [name] and said in found[name]


def test_a_blank_start_is_not_a_fault(tmp_path: Path) -> None:
    blank = Program.of("def total(items):\n    raise NotImplementedError('write it')\n")
    assert not bad(replace(total_task(tmp_path / "total"), start=blank))


@pytest.mark.parametrize(
    ("generate", "name", "said"),
    [
        ("import random\n" + TOTAL_GENERATE.replace("rng.", "random."), "deterministic", "draw only from `rng`"),
        ("def generate(size, rng):\n    return ([0] * size,)\n", "refuses a constant", "add tests with other answers"),
        ("def generate(size, rng):\n    return [1]\n", "reference", "must return a tuple"),
        ("def generate(size, rng):\n    return undefined\n", "reference", "NameError"),
    ],
)
def test_faulty_generators(tmp_path: Path, generate: str, name: str, said: str) -> None:
    total_task(tmp_path / "total")
    (tmp_path / "total" / "generate.py").write_text(generate)
    (tmp_path / "total" / "tests.jsonl").write_text(lines({"split": "public", "args": [[]], "expected": 0}))
    from coevo.tasks import load_task

    found = bad(load_task(tmp_path / "total"))
    assert said in found[name]


def test_hidden_tests_that_are_the_public_ones(tmp_path: Path) -> None:
    task = make_task(
        tmp_path / "t",
        {"kind": "function", "entry": "f"},
        program_py="def f(x):\n    return -x\n",
        tests_jsonl=lines(
            {"split": "public", "args": [1], "expected": -1}, {"split": "public", "args": [2], "expected": -2}
        ),
    )
    found = bad(task)
    assert list(found) == ["splits"] and "add hidden tests" in found["splits"]


@pytest.mark.parametrize(
    ("score", "name"),
    [
        ("def score(output, instance):\n    return len(output)\n", "refuses a list of NaN"),
        ("def score(output, instance):\n    return float(sum(output))\n", "refuses an empty list"),
        ("def score(output, instance):\n    return 1.0 if output else 0.5\n", "refuses a NaN"),
        (OPEN_SCORE.replace("return sum", "import random\n    return random.random() * sum"), "repeatable"),
        (OPEN_SCORE.replace("return sum", "return 3 * sum"), "start"),
        (OPEN_SCORE.replace("raise ValueError", "raise RuntimeError"), "refuses None"),
    ],
)
def test_faulty_scorers(tmp_path: Path, score: str, name: str) -> None:
    found = bad(
        open_task(
            tmp_path / "open",
            score,
            "def f(n):\n    return [0.0] * n\n" if "float(sum" in score else "def f(n):\n    return [0.5] * n\n",
        )
    )
    assert name in found, found


def test_an_invalid_start(tmp_path: Path) -> None:
    found = bad(open_task(tmp_path / "open", program="def f(n):\n    return [2.0] * n\n"))
    assert "numbers in 0..1" in found["start"]


@pytest.mark.parametrize(
    ("statement", "program", "given_away"),
    [
        ("Beat 2.6359830849 if you can.", "", True),
        ("The record is 2.636.", "", True),
        ("Pack 26 circles; a sum of 2 is easy, 2.6 is good.", "", False),
        ("Pack.", "# goal: 2.63598\n", True),
    ],
)
def test_the_best_known_value_stays_secret(tmp_path: Path, statement: str, program: str, given_away: bool) -> None:
    task = open_task(tmp_path / "open", statement=statement)
    config = task.config.model_copy(update={"best_known": BestKnown(value=2.635983084917606, source="x")})
    found = bad(replace(task, config=config, start=Program.of(program + task.start.source)))
    assert ("secret" in found) is given_away


def test_a_machine_fault_is_not_a_task_fault(tmp_path: Path) -> None:
    results = check_task(replace(total_task(tmp_path / "total"), reference=Program.of("while True:\n    pass\n")))
    assert [r for r in results if not r.ok] == [CheckResult("reference", False, results[-1].detail)]
    assert "raise the limits" in results[-1].detail


@pytest.mark.parametrize("value", [1, -2.5, "it's", [1, (2, None)], {"a": {1, 2}}, b"\x00", True])
def test_literals(value) -> None:
    assert eval(str(literal(value))) == value


@pytest.mark.parametrize("value", [float("nan"), [10**6000], object()])
def test_values_without_a_literal(value) -> None:
    assert literal(value) is None
