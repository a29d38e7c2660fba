"""OpenEvolve folders run unchanged, inside the sandbox, and say that their judge can be reached."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from coevo.errors import ConfigError, TaskError
from coevo.evaluation.judge import Judge
from coevo.evaluation.types import Evaluation, Failure, Outcome
from coevo.programs import Program
from coevo.tasks import load_task
from coevo.tasks.types import Kind

PROGRAM = "# EVOLVE-BLOCK-START\ndef f(x):\n    return x * x\n# EVOLVE-BLOCK-END\n"
LOAD = """
import importlib.util
def load(path):
    spec = importlib.util.spec_from_file_location("program", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
"""
EVALUATOR = (
    LOAD
    + """
def evaluate(program_path):
    value = load(program_path).f(3)
    return {"combined_score": float(value), "size": len(open(program_path).read()), "note": "text", "flag": True}
"""
)


def folder(path: Path, evaluator: str = EVALUATOR, **files: str) -> Path:
    path.mkdir(parents=True, exist_ok=True)
    (path / "initial_program.py").write_text(PROGRAM)
    (path / "evaluator.py").write_text(evaluator)
    for name, text in files.items():
        stem, _, ending = name.rpartition("_")
        (path / f"{stem}.{ending}").write_text(text)
    return path


def run(path: Path, source: str | None = None, split="public") -> Evaluation:
    task = load_task(path)
    with Judge(task) as judge:
        return judge.evaluate(Program.of(source) if source else task.start, split=split, seed=0)


def test_a_plain_folder(tmp_path: Path) -> None:
    task = load_task(folder(tmp_path / "My Problem"))
    assert (task.kind, task.name, task.start.source) == (Kind.OPENEVOLVE, "my_problem", PROGRAM)
    result = run(tmp_path / "My Problem")
    assert (result.outcome, result.score, result.judge) == (Outcome.SCORED, 9.0, "shared with the candidate")
    assert result.extra == {"combined_score": 9.0, "size": float(len(PROGRAM))}
    assert "Score 9" in result.feedback
    assert run(tmp_path / "My Problem", split="hidden").feedback == ""


@pytest.mark.parametrize(
    ("body", "score"),
    [
        ("return {'a': 1.0, 'b': 2, 'c': 'x'}", 1.5),
        ("import numpy; return {'a': numpy.float64(4)}", 4.0),
        (
            "from openevolve.evaluation_result import EvaluationResult; return EvaluationResult(metrics={'combined_score': 5.0}, artifacts={'why': 'because'})",
            5.0,
        ),
        ("import helper; return {'a': helper.VALUE}", 6.0),
        ("return {'a': float(open('data.txt').read())}", 7.0),
        ("return {'a': -2.0}", -2.0),
        ("print('noise'); return {'a': 1.0}", 1.0),
        ("import scipy.optimize; return {'a': scipy.optimize.brentq(lambda x: x - 2, 0, 5)}", 2.0),
        (
            "import concurrent.futures as c\n    with c.ThreadPoolExecutor() as e: return {'a': e.submit(lambda: load(program_path).f(2)).result(timeout=5)}",
            4.0,
        ),
    ],
)
def test_what_evaluators_do(tmp_path: Path, body: str, score: float) -> None:
    path = folder(
        tmp_path / "t", LOAD + f"def evaluate(program_path):\n    {body}\n", helper_py="VALUE = 6\n", data_txt="7"
    )
    result = run(path)
    assert result.score == pytest.approx(score), result
    if "because" in body:
        assert "why: because" in result.feedback


def test_async_evaluators_are_awaited(tmp_path: Path) -> None:
    source = (
        LOAD
        + "import asyncio\nasync def evaluate(program_path):\n    await asyncio.sleep(0)\n    return {'a': load(program_path).f(4)}\n"
    )
    assert run(folder(tmp_path / "t", source)).score == 16


@pytest.fixture(scope="module")
def passing(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    """A judge whose evaluator hands on what the candidate's `result()` returns."""
    evaluator = LOAD + "def evaluate(program_path):\n    return load(program_path).result()\n"
    with Judge(load_task(folder(tmp_path_factory.mktemp("folders") / "passing", evaluator))) as judge:
        yield judge


@pytest.mark.parametrize(
    ("body", "failure"),
    [
        ("return {'combined_score': float('nan')}", Failure.INVALID),
        ("return {'combined_score': float('inf')}", Failure.INVALID),
        ("return {'combined_score': -1e400}", Failure.INVALID),
        ("return {'combined_score': 1.0, 'other': float('nan')}", Failure.INVALID),
        ("return {}", Failure.INVALID),
        ("return {'a': 'x'}", Failure.INVALID),
        ("return 5", Failure.CRASH),
        ("return None", Failure.CRASH),
        ("import os; os._exit(0)", Failure.CRASH),
        ("raise RuntimeError('bad')", Failure.CRASH),
    ],
)
def test_no_score(passing: Judge, body: str, failure: Failure) -> None:
    result = passing.evaluate(Program.of(f"def result():\n    {body}\n"), split="public", seed=0)
    assert (result.outcome, result.failure, result.fitness) == (Outcome.FAILED, failure, 0.0)
    assert result.judge == "shared with the candidate"
    if "nan" in body or "inf" in body or "400" in body:
        assert "not finite" in result.reason


def test_a_looping_candidate_ends_at_the_folders_own_timeout(tmp_path: Path) -> None:
    path = folder(
        tmp_path / "t",
        config_yaml="evaluator:\n  timeout: 1\n  parallel_evaluations: 4\nprompt:\n  system_message: Square numbers.\nmax_iterations: 5\n",
    )
    task = load_task(path)
    assert task.config.statement == "Square numbers." and task.config.limits.cpu_s == 1
    result = run(path, "def f(x):\n    while True:\n        pass\n")
    assert result.failure is Failure.TIMEOUT
    assert run(path).score == 9


def test_several_files_in_a_candidate(tmp_path: Path) -> None:
    path = folder(
        tmp_path / "t",
        LOAD
        + "import os, sys\ndef evaluate(program_path):\n    sys.path.insert(0, os.path.dirname(program_path))\n    return {'a': load(program_path).f(3)}\n",
    )
    with Judge(load_task(path)) as judge:
        program = Program.of({"program.py": "from inner import f\n", "inner.py": "def f(x):\n    return x + 1\n"})
        assert judge.evaluate(program, split="public", seed=0).score == 4


@pytest.mark.parametrize(
    ("evaluator", "said"),
    [
        ("import pandas\ndef evaluate(p): return {}\n", "imports 'pandas', which the sandbox does not offer"),
        ("def judge(p): return {}\n", "defines no function evaluate"),
        ("1 / 0\n", "ZeroDivisionError"),
    ],
)
def test_evaluators_that_do_not_load_are_the_folders_fault(tmp_path: Path, evaluator: str, said: str) -> None:
    with pytest.raises(TaskError, match=said):
        Judge(load_task(folder(tmp_path / "t", evaluator))).open()


def test_bad_folders(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=r"evaluator\.timeout is -5"):
        load_task(folder(tmp_path / "t", config_yaml="evaluator: {timeout: -5}\n"))
    with pytest.raises(ConfigError, match="not valid YAML"):
        load_task(folder(tmp_path / "u", config_yaml="a: [\n"))
    big = folder(tmp_path / "v")
    (big / "data.bin").write_bytes(b"x" * (9 << 20))
    with pytest.raises(TaskError, match=r"more than 8 MB \(up to data\.bin\)"):
        load_task(big)
