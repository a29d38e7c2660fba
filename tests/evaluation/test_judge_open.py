"""Kind open, end to end in the real sandbox: a finite certified score, or a typed failure; a judge's bug is neither."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from coevo.errors import TaskError
from coevo.evaluation.judge import Judge
from coevo.evaluation.opened import Unscorable, read_score
from coevo.evaluation.types import Evaluation, Failure, Outcome
from coevo.programs import Program
from coevo.tasks.types import Task
from tests.evaluation.folders import make_task

SCORE = """
from coevo.tasks.exact import Infeasible

def score(output, instance):
    n = instance["n"]
    if len(output) != n:
        raise Infeasible(f"{len(output)} numbers instead of {n}")
    return {"score": sum(output), "feedback": f"the sum of {n} numbers", "largest": max(output)}
"""


def sum_task(folder: Path, score: str = SCORE, **config) -> Task:
    base = {
        "kind": "open",
        "entry": "f",
        "instances": {"public": [{"n": 2}, {"n": 4}]},
        "limits": {"cpu_s": 1.0, "wall_s": 60.0, "memory_mb": 128},
    }
    return make_task(folder, {**base, **config}, program_py="def f(n):\n    return [1.0] * n\n", score_py=score)


def run(task: Task, source: str, split="public", seed: int = 0) -> Evaluation:
    with Judge(task) as judge:
        return judge.evaluate(Program.of(source), split=split, seed=seed)


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    with Judge(sum_task(tmp_path_factory.mktemp("tasks") / "sum")) as judge:
        yield judge


def test_mean_over_instances_in_the_tasks_own_direction(tmp_path: Path) -> None:
    task = sum_task(tmp_path / "t", best_known={"value": 6.0, "source": "x"})
    result = run(task, task.start.source)
    assert (result.outcome, result.score, result.correctness) == (Outcome.SCORED, 3.0, 1.0)
    assert result.fitness == pytest.approx(0.5)
    assert result.extra == {"largest": 1.0, "output": [1.0, 1.0]}
    assert "Score 3 (higher is better)" in result.feedback and "the sum of 2 numbers" in result.feedback
    assert "6" not in result.feedback  # the best known value
    low = sum_task(tmp_path / "u", direction="min", best_known={"value": 1.5, "source": "x"})
    result = run(low, low.start.source)
    assert result.fitness == pytest.approx(0.5) and "lower is better" in result.feedback


@pytest.mark.parametrize(
    ("body", "failure", "said"),
    [
        ("return [1.0]", Failure.INVALID, "instance 1 of 2: 1 numbers instead of 2"),
        ("return [1.0] * 2", Failure.INVALID, "instance 2 of 2: 2 numbers instead of 4"),
        ("return None", Failure.INVALID, "expected form"),
        ("return 'ab' if n == 2 else 'abcd'", Failure.INVALID, "expected form"),
        ("return [float('nan')] * n", Failure.INVALID, "not finite"),
        ("return [float('inf')] * n", Failure.INVALID, "not finite"),
        ("return [10**400] * n", Failure.INVALID, "too large"),
        ("return [True] + [1j] * (n - 1)", Failure.INVALID, "expected form"),
        ("return (x for x in [1] * n)", Failure.INVALID, "plain data"),
        ("return 1 / 0", Failure.CRASH, "ZeroDivisionError"),
        ("import os; os._exit(0)", Failure.CRASH, "ended before"),
        ("while True: pass", Failure.TIMEOUT, "CPU limit"),
        ("return [0] * 10**9", Failure.MEMORY, "memory"),
        ("return 'x' * 10**7", Failure.OUTPUT, "bytes"),
    ],
)
def test_answers_without_a_score(judge: Judge, body: str, failure: Failure, said: str) -> None:
    result = judge.evaluate(Program.of(f"def f(n):\n    {body}\n"), split="public", seed=0)
    assert (result.outcome, result.failure, result.fitness, result.score) == (Outcome.FAILED, failure, 0.0, None)
    assert said in result.reason and said in result.feedback


@pytest.mark.parametrize(
    "body", ["raise ValueError(word)", "return word", "return [word]", "import sys; sys.exit(word)"]
)
def test_hidden_instances_stay_hidden(tmp_path: Path, body: str) -> None:
    instances = {"public": [{"word": "open"}], "hidden": [{"word": "sesame"}]}
    score = "def score(output, instance):\n    raise ValueError(f'{output} is not {instance}')\n"
    task = make_task(
        tmp_path / "t",
        {"kind": "open", "entry": "f", "instances": instances},
        program_py="def f(word):\n    return word\n",
        score_py=score,
    )
    result = run(task, f"def f(word):\n    {body}\n", "hidden")
    assert result.outcome is Outcome.FAILED and result.feedback == ""
    assert result.reason and "sesame" not in repr(result)


@pytest.mark.parametrize(
    "score",
    [
        "def score(output, instance):\n    return undefined\n",
        "def score(output, instance):\n    import nowhere\n",
        "def score(output, instance):\n    return open('/nonexistent').read()\n",
        "def score(output, instance):\n    raise RuntimeError('x')\n",
        "def score(output, instance):\n    raise SystemExit\n",
    ],
)
def test_a_bug_of_the_scorer_is_unmeasured_and_loud(
    tmp_path: Path, score: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR, "coevo"):
        result = run(sum_task(tmp_path / "t", score), "def f(n):\n    return [1.0] * n\n")
    assert (result.outcome, result.fitness, result.failure) == (Outcome.UNMEASURED, None, Failure.INFRASTRUCTURE)
    assert "bug of the judge" in result.reason
    assert any("score.py failed" in record.getMessage() and record.exc_info for record in caplog.records)


@pytest.mark.parametrize(
    "result", ["None", "True", "'12'", "{}", "{'score': None}", "[1.0]", "float('nan')", "{'score': float('inf')}"]
)
def test_only_a_finite_number_is_a_score(result: str) -> None:
    with pytest.raises(Unscorable):
        read_score(eval(result))


@pytest.mark.parametrize("result", [3, 3.0, Fraction(6, 2), np.float64(3), np.int32(3)])
def test_numbers_of_all_kinds(result: object) -> None:
    assert read_score(result) == (3.0, "", {})
    assert read_score({"score": result, "feedback": "so so", "ring": [1.5]}) == (3.0, "so so", {"ring": [1.5]})


def test_a_scorer_that_gives_no_finite_score_leaves_none(tmp_path: Path) -> None:
    found = run(
        sum_task(tmp_path / "t", "def score(output, instance):\n    return {'score': float('inf')}\n"),
        "def f(n):\n    return 1\n",
    )
    assert (found.outcome, found.failure, found.fitness) == (Outcome.FAILED, Failure.INVALID, 0.0)


def test_a_broken_score_file_is_the_tasks_fault(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=r"score\.py:2: ZeroDivisionError"):
        run(sum_task(tmp_path / "t", "def score(o, i): return 1\n1 / 0\n"), "def f(n):\n    return 1\n")


def test_without_hidden_instances_the_public_ones_run_on_a_fresh_seed(tmp_path: Path) -> None:
    task = sum_task(tmp_path / "t")
    source = "import random\ndef f(n):\n    return [random.random() for _ in range(n)]\n"
    public, again, other, hidden = (
        run(task, source, split, seed).score
        for split, seed in (("public", 1), ("public", 1), ("public", 2), ("hidden", 1))
    )
    assert public == again
    assert len({public, other, hidden}) == 3
    assert run(task, source, "hidden").feedback == ""


STATEFUL = "seen = []\ndef f(n):\n    seen.append(n)\n    return [float(len(seen))] * n\n"


def test_fresh_process_keeps_instances_apart(tmp_path: Path) -> None:
    shared = run(sum_task(tmp_path / "t"), STATEFUL)
    apart = run(sum_task(tmp_path / "u", fresh_process=True), STATEFUL)
    assert (shared.score, shared.executions) == ((2 + 8) / 2, 1)
    assert (apart.score, apart.executions) == ((2 + 4) / 2, 2)


def test_score_all_sees_the_whole_split(tmp_path: Path) -> None:
    score = "def score_all(outputs, instances):\n    return {'score': len(outputs) + outputs[1][0] * instances[1]['n'], 'spread': [1, 2]}\n"
    result = run(sum_task(tmp_path / "t", score), "def f(n):\n    return [0.5] * n\n")
    assert result.score == 4.0 and result.extra["spread"] == [1, 2]


def test_instances_from_the_generator(tmp_path: Path) -> None:
    generate = "def instances(split, rng):\n    return [{'n': 3 + (split == 'hidden'), 'x': rng.random()}]\n"
    score = "def score(output, instance):\n    return output + instance['x']\n"
    task = make_task(
        tmp_path / "t",
        {"kind": "open", "entry": "f"},
        program_py="def f(n, x):\n    return n - x\n",
        score_py=score,
        generate_py=generate,
    )
    assert run(task, task.start.source).score == pytest.approx(3)
    assert run(task, task.start.source, "hidden").score == pytest.approx(4)


def test_baseline_gets_its_seconds_and_room_for_them(tmp_path: Path) -> None:
    sum_task(tmp_path / "t", limits={"cpu_s": 0.2})
    (tmp_path / "t" / "baseline.py").write_text(
        "import time\ndef f(n, seconds):\n    end = time.process_time() + seconds\n    while time.process_time() < end:\n"
        "        pass\n    return [seconds] * n\n"
    )
    from coevo.tasks import load_task

    with Judge(load_task(tmp_path / "t")) as judge:
        result = judge.baseline(1.0, split="public", seed=0)
    assert result.outcome is Outcome.SCORED and result.score == pytest.approx(0.5 * 3)
    assert result.cpu_s > 0.9
    with Judge(sum_task(tmp_path / "u")) as judge, pytest.raises(TaskError, match="no baseline"):
        judge.baseline(1.0, split="public", seed=0)


def test_large_answers_are_judged_but_not_kept(tmp_path: Path) -> None:
    task = sum_task(tmp_path / "t", "def score(output, instance):\n    return len(output)\n")
    result = run(task, "def f(n):\n    return [0.5] * 30_000\n")
    assert result.score == 30_000 and "output" not in result.extra


def test_numpy_answers(tmp_path: Path) -> None:
    task = sum_task(tmp_path / "t", preload="numpy")
    result = run(task, "import numpy\ndef f(n):\n    return numpy.ones(n)\n")
    assert result.score == 3.0 and result.extra["output"] == [1.0, 1.0]


def test_several_files(tmp_path: Path) -> None:
    task = sum_task(tmp_path / "t")
    with Judge(task) as judge:
        program = Program.of(
            {
                "program.py": "from shapes.flat import flat as f\n",
                "shapes/flat.py": "def flat(n):\n    return [2] * n\n",
            }
        )
        assert judge.evaluate(program, split="public", seed=0).score == 6


@pytest.mark.parametrize(
    ("body", "score"),
    [
        ("return 1.7e308", 1.7e308),  # the sum over instances leaves the floats, their mean does not
        ("return 1.7e308 if n == 2 else -1.7e308", 0.0),
    ],
)
def test_scores_at_the_end_of_the_floats_have_a_mean(tmp_path: Path, body: str, score: float) -> None:
    task = sum_task(tmp_path / "t", "def score(output, instance):\n    return output\n")
    result = run(task, f"def f(n):\n    {body}\n")
    assert (result.outcome, result.score) == (Outcome.SCORED, score)


def test_named_numbers_too_large_for_a_mean_are_left_out(tmp_path: Path) -> None:
    score = "def score(output, instance):\n    return {'score': 1, 'sum': output, 'n': instance['n']}\n"
    result = run(sum_task(tmp_path / "t", score), "def f(n):\n    return 10 ** 900\n")
    assert result.outcome is Outcome.SCORED
    assert result.extra["n"] == 3.0 and "sum" not in result.extra


@pytest.mark.parametrize(
    "body",
    [
        "import numpy\n    return numpy.longdouble(1)",
        "import numpy\n    return numpy.zeros((1 << 40, 0))",
        "return '\\ud800\\0' * 100",
        "return {float('nan'): {1j: {frozenset(): b'x'}}}",
        "import sys\n    x = []\n    for _ in range(90): x = [x]\n    return x",
        "import os, struct\n    os.write(3, struct.pack('<BI', 3, 2) + b'\\1N')\n    os._exit(0)",
    ],
)
def test_odd_answers_are_never_unmeasured(tmp_path: Path, body: str) -> None:
    config = {"preload": "numpy", "limits": {"cpu_s": 2.0, "wall_s": 60.0, "memory_mb": 256}}
    score = "def score(output, instance):\n    raise ValueError(f'not {output}')\n"
    result = run(sum_task(tmp_path / "t", score, **config), f"def f(n):\n    {body}\n")
    assert result.outcome is Outcome.FAILED, result
    result.feedback.encode()
    result.reason.encode()


EXITS = "raise SystemExit(0)\n"


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("generate_py", f"def instances(split, rng):\n    {EXITS}"),
        ("generate_py", f"{EXITS}def instances(split, rng):\n    return []\n"),
        ("score_py", f"{EXITS}def score(output, instance):\n    return 1.0\n"),
    ],
)
def test_a_judge_file_that_exits_is_named_and_ends_nothing(tmp_path: Path, file: str, text: str) -> None:
    files = {"score_py": "def score(output, instance):\n    return 1.0\n", file: text}
    config = {"kind": "open", "entry": "f", "instances": {"public": [{}]}}
    task = make_task(tmp_path / "t", config, program_py="def f():\n    return 1\n", **files)
    with pytest.raises(TaskError, match=r"(generate|score)\.py.*SystemExit"):
        run(task, "def f():\n    return 1\n")
