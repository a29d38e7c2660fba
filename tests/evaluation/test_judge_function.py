"""Kind function, end to end in the real sandbox: faults cost what they should, cheats earn nothing, nothing leaks."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from coevo.errors import SandboxError, TaskError
from coevo.evaluation.judge import Judge, canary
from coevo.evaluation.running import Runner
from coevo.evaluation.types import Evaluation, Failure, Outcome
from coevo.programs import Program
from coevo.sandbox.types import Execution, Job, Level, Sandbox, Status
from tests.evaluation.folders import TOTAL, lines, make_task, total_task


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    with Judge(total_task(tmp_path_factory.mktemp("tasks") / "total")) as judge:
        yield judge


def run(judge: Judge, source: str | dict[str, str], split="public", seed: int = 0) -> Evaluation:
    return judge.evaluate(Program.of(source), split=split, seed=seed)


def statuses(evaluation: Evaluation) -> list[str]:
    return [t.status for t in evaluation.tests]


def test_a_right_program(judge: Judge) -> None:
    for split in ("public", "hidden"):
        result = run(judge, TOTAL, split)
        assert result.outcome is Outcome.SCORED
        assert result.correctness == result.fitness == 1.0
        assert result.efficiency is None and result.failure is None
        assert result.judge == "separate"
    assert result.executions == 1 and result.cpu_s > 0


def test_a_partly_right_program_and_its_feedback(judge: Judge) -> None:
    result = run(judge, "def total(items):\n    return sum(items) if len(items) < 15 else 0\n")
    assert result.outcome is Outcome.SCORED and result.correctness == pytest.approx(4 / 6)
    assert "Passed 4 of 6 tests." in result.feedback
    assert "size 20" in result.feedback and "got 0, expected" in result.feedback and "total([" in result.feedback


def test_same_arguments_same_evaluation(judge: Judge) -> None:
    source = "import random\ndef total(items):\n    return sum(items) + (random.random() < 0.5)\n"
    timeless = [replace(run(judge, source, seed=4), cpu_s=0, wall_s=0, peak_mb=0) for _ in range(2)]
    assert timeless[0] == timeless[1]
    assert 0 < (timeless[0].correctness or 0) < 1


@pytest.mark.parametrize(
    ("fault", "status"),
    [
        ("os._exit(0)", "exited"),
        ("sys.exit(0)", "exited"),
        ("raise ValueError('no twenties')", "error"),
        ("os.kill(os.getpid(), 11)", "crashed"),
        ("ctypes.string_at(0)", "crashed"),
        ("return [0] * 10**9", "memory"),
        ("return (x for x in items)", "invalid"),
        ("return lambda: 1", "invalid"),
        ("return Exception", "invalid"),
        ("return None", "wrong"),
    ],
)
def test_one_bad_input_costs_one_test(judge: Judge, fault: str, status: str) -> None:
    source = (
        f"import ctypes, os, sys\ndef total(items):\n    if len(items) == 20:\n        {fault}\n    return sum(items)\n"
    )
    result = run(judge, source)
    if status == "crashed":  # as pid 1 of its namespace a process may be immune to its own signal; then it answered
        assert statuses(result).count("ok") >= 5
    else:
        assert sorted(statuses(result)) == sorted([status] + ["ok"] * 5), result.feedback
        assert result.correctness == pytest.approx(5 / 6)
    assert result.outcome is Outcome.SCORED


def test_a_slow_input_does_not_starve_the_others(judge: Judge) -> None:
    result = run(judge, "def total(items):\n    while len(items) == 20:\n        pass\n    return sum(items)\n")
    assert sorted(statuses(result)) == ["cpu"] + ["ok"] * 5
    assert "over the CPU limit of 0.5 s" in result.feedback


def test_patience_ends(judge: Judge) -> None:
    result = run(judge, "def total(items):\n    while len(items) > 1:\n        pass\n    return sum(items)\n")
    assert statuses(result).count("ok") == 2 or statuses(result).count("skipped") > 0
    assert result.executions <= 8 and result.cpu_s < 8


@pytest.mark.parametrize(
    ("source", "failure", "said"),
    [
        ("def total(items:\n", Failure.CRASH, "SyntaxError"),
        ("x = 1\n", Failure.CRASH, "no 'total'"),
        ("total = 5\n", Failure.CRASH, "not a function"),
        ("import nowhere\ndef total(items): return 0\n", Failure.CRASH, "nowhere"),
        ("def total(items):\n    return 1 / 0\n", Failure.CRASH, "ZeroDivisionError"),
        ("def total(items):\n    import os\n    os._exit(0)\n", Failure.CRASH, "ended before the answer"),
        ("while True:\n    pass\n", Failure.TIMEOUT, "CPU limit"),
        ("def total(items):\n    return bytearray(10**9)\n", Failure.MEMORY, "memory limit"),
        ("def total(items):\n    print('x' * 10**7)\n    return 0\n", Failure.OUTPUT, "bytes"),
        ("def total(items):\n    return (i for i in items)\n", Failure.INVALID, "generator"),
        ("", Failure.CRASH, "no 'total'"),
        ("def total(items):\n    return total(items)\n", Failure.CRASH, "RecursionError"),
    ],
)
def test_programs_without_any_answer(judge: Judge, source: str, failure: Failure, said: str) -> None:
    result = run(judge, source)
    assert (result.outcome, result.failure, result.fitness) == (Outcome.FAILED, failure, 0.0), result
    assert said in result.feedback and said in result.reason


def test_errors_name_the_line(judge: Judge) -> None:
    feedback = run(judge, "def total(items):\n    x = 0\n    return x.nope\n").feedback
    assert "AttributeError" in feedback and "line 3" in feedback


EQUAL = """
class Equal(int):
    __eq__ = __le__ = __ge__ = lambda self, other: True
    __ne__ = lambda self, other: False
    __hash__ = lambda self: 0
    __sub__ = __rsub__ = __abs__ = lambda self, *other: 0
    tolist = lambda self: True
class Object:
    __eq__ = lambda self, other: True
    __float__ = lambda self: 0.0
"""


@pytest.mark.parametrize(
    "answer",
    [
        "Equal(123456)",
        "[Equal(1)]",
        "Object()",
        "type('str', (str,), {'__eq__': lambda s, o: True})('x')",
        "float('nan')",
        "True",
        "range(3)",
        "iter(items)",
        "NotImplemented",
        "...",
    ],
)
def test_objects_that_claim_to_equal_anything_earn_nothing(judge: Judge, answer: str) -> None:
    result = run(judge, f"{EQUAL}\ndef total(items):\n    return {answer}\n")
    assert result.correctness == 0.0 and not any(t.passed for t in result.tests)


def test_mutating_arguments_reaches_no_later_call_and_no_answer(judge: Judge) -> None:
    source = "def total(items):\n    s = sum(items)\n    items.clear()\n    items.append(1)\n    return s\n"
    assert run(judge, source).correctness == 1.0
    assert run(judge, TOTAL).correctness == 1.0


def test_patching_the_interpreter_changes_nothing(judge: Judge) -> None:
    source = (
        "import builtins, time, sys, json\n"
        "builtins.sum = builtins.len = lambda *a: 0\n"
        "time.process_time = time.time = lambda: 0\n"
        "sys.modules['json'] = None\n"
        "def total(items):\n    return 12345\n"
    )
    assert run(judge, source).correctness == 0.0
    assert run(judge, TOTAL).correctness == 1.0


def test_forged_frames_are_worth_what_answers_are_worth(judge: Judge) -> None:
    source = "import os\nfor fd in range(3, 64):\n    try:\n        os.write(fd, b'\\x02' * 64)\n    except OSError:\n        pass\n"
    result = run(judge, source + "def total(items):\n    return 0\n")
    assert result.outcome is not Outcome.UNMEASURED
    assert (result.correctness or 0) < 1
    assert run(judge, TOTAL).correctness == 1.0


def test_several_files(judge: Judge) -> None:
    files = {
        "program.py": "from parts.adding import add\nimport zero\ndef total(items):\n    return add(items, zero.ZERO)\n",
        "parts/__init__.py": "",
        "parts/adding.py": "def add(items, start):\n    return sum(items, start)\n",
        "zero.py": "ZERO = 0\n",
    }
    assert run(judge, files).correctness == 1.0
    broken = run(judge, {**files, "zero.py": "ZERO = 1 / 0\n"})
    assert broken.failure is Failure.CRASH and "zero.py" in broken.feedback


class Recording:
    """A sandbox that keeps what goes in, and can be told to fail."""

    def __init__(self, inner: Sandbox, failures: int = 0) -> None:
        self.inner, self.failures, self.jobs = inner, failures, []

    @property
    def level(self) -> Level:
        return self.inner.level

    def run(self, job: Job) -> Execution:
        self.jobs.append(job)
        if self.failures:
            self.failures -= 1
            return Execution(Status.INFRASTRUCTURE, error="the worker died", cpu_s=9.0)
        return self.inner.run(job)

    def close(self) -> None:
        self.inner.close()


def spied(judge: Judge, failures: int = 0) -> Recording:
    """The judge's sandbox, replaced by a recording one around it."""
    runner = judge.inner.runner
    recording = Recording(runner.sandbox, failures)
    judge.inner.runner = replace(runner, sandbox=recording)
    return recording


def test_infrastructure_is_tried_again_and_then_unmeasured_never_a_zero(tmp_path: Path) -> None:
    with Judge(total_task(tmp_path / "total")) as judge:
        right = run(judge, TOTAL)
        spied(judge, failures=1)
        once = run(judge, TOTAL)
        assert once.correctness == 1.0 and once.cpu_s < 9 and once.executions == right.executions
        spied(judge, failures=2)
        twice = run(judge, TOTAL)
        assert twice.outcome is Outcome.UNMEASURED and twice.failure is Failure.INFRASTRUCTURE
        assert twice.fitness is None and twice.cpu_s == 0 and "the worker died" in twice.reason
        assert run(judge, TOTAL).correctness == 1.0


SECRET = 918273645546372819


def test_answers_never_enter_the_sandbox_and_hidden_tests_never_leave(tmp_path: Path) -> None:
    task = make_task(
        tmp_path / "secret",
        {"kind": "function", "entry": "f", "limits": {"cpu_s": 1.0}},
        program_py="def f(x):\n    return x\n",
        tests_jsonl=lines(
            {"split": "public", "args": ["open"], "expected": SECRET, "name": "p"},
            {"split": "hidden", "args": ["closed-input"], "expected": SECRET + 1, "name": "h"},
        ),
    )
    sources = [
        "def f(x):\n    return x\n",
        "def f(x):\n    raise ValueError(x)\n",
        "def f(x):\n    print(x)\n    return [x]\n",
        "import sys\ndef f(x):\n    sys.exit(x)\n",
        "import gc, sys\ndef f(x):\n    return [repr(o)[:200] for o in gc.get_objects() if isinstance(o, (int, list, tuple, dict))][:3000]\n",
    ]
    with Judge(task) as judge:
        recording = spied(judge)
        for source in sources:
            public, hidden = run(judge, source), run(judge, source, "hidden")
            assert str(SECRET) in public.feedback or public.outcome is Outcome.FAILED
            told = hidden.feedback + hidden.reason + "".join(t.detail for t in hidden.tests)
            assert "closed" not in told and str(SECRET)[:8] not in told and hidden.feedback == ""
            assert hidden.correctness == 0.0
        assert recording.jobs and not any(str(SECRET)[:12] in repr(job) for job in recording.jobs)


def test_values_that_graders_get_wrong(tmp_path: Path) -> None:
    values = {
        "huge": "7 ** 20000",
        "minus_zero": "-0.0",
        "nan": "float('nan')",
        "infinity": "[float('inf'), float('-inf')]",
        "bytes": "bytes(range(256))",
        "surrogate": "'\\ud800'",
        "floats": "[0.1 * k for k in range(1000)]",
        "tuple": "((1, 2), [3])",
        "keys": "{1: 'a', (2, 3): 'b', None: 'c'}",
        "set": "{1, 2, 3}",
        "deep": "[[[[[[[[[[1]]]]]]]]]]",
        "none": "None",
        "empty": "''",
        "numpy": "numpy.arange(6.0).reshape(2, 3)",
        "scalar": "numpy.float32(0.5)",
    }
    table = "import numpy\ndef f(key):\n    return {" + ", ".join(f"{k!r}: {v}" for k, v in values.items()) + "}[key]\n"
    task = make_task(
        tmp_path / "values",
        {
            "kind": "function",
            "entry": "f",
            "preload": "numpy",
            "tests": {"public": {"sizes": list(range(len(values)))}},
        },
        program_py=table,
        reference_py=table,
        generate_py=f"KEYS = {list(values)!r}\ndef generate(size, rng):\n    return (KEYS[size],)\n",
    )
    with Judge(task) as judge:
        result = run(judge, table)
        assert result.correctness == 1.0, result.feedback
        blank = run(judge, "def f(key):\n    return None if key != 'none' else ''\n")
        assert blank.correctness == 0.0
        as_list = table.replace("numpy.arange(6.0).reshape(2, 3)", "[[0, 1, 2], [3, 4, 5]]").replace(
            "((1, 2), [3])", "[[1, 2], [3]]"
        )
        assert run(judge, as_list).correctness == 1.0
        zero = run(judge, table.replace("float('nan')", "0.0"))
        assert [t.name for t in zero.tests if not t.passed] == ["size 2"]
        assert math.isclose(zero.correctness or 0, 1 - 1 / len(values))


def test_a_broken_reference_is_the_tasks_fault(tmp_path: Path) -> None:
    task = total_task(tmp_path / "total")
    broken = replace(task, reference=Program.of("def total(items):\n    return sum(items) % 97\n"))
    with Judge(broken) as judge, pytest.raises(TaskError, match="reference fails the public test 'big'"):
        run(judge, TOTAL)
    crashing = replace(task, reference=Program.of("def total(items):\n    return items[0]\n"))
    with Judge(crashing) as judge, pytest.raises(TaskError, match=r"'empty' \(total\(\[\]\)\): raised IndexError"):
        run(judge, TOTAL)


class Broken:
    """A machine on which every program runs out of memory."""

    level = Level.NAMESPACES

    def run(self, job: Job) -> Execution:
        return Execution(Status.MEMORY, error="killed")

    def close(self) -> None:
        pass


def test_a_machine_that_goes_bad_later_is_not_the_programs_fault(tmp_path: Path) -> None:
    with Judge(total_task(tmp_path / "total")) as judge:
        assert run(judge, TOTAL).correctness == 1.0
        runner = judge.inner.runner
        judge.inner.runner = replace(runner, sandbox=Broken())
        result = run(judge, TOTAL)
        assert (result.outcome, result.fitness) == (Outcome.UNMEASURED, None) and "known-good" in result.reason
        judge.inner.runner = runner
        assert run(judge, TOTAL).correctness == 1.0


@pytest.mark.parametrize("ends", ["return undefined", "raise SystemExit(0)"])
def test_a_checker_that_stumbles_measures_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture, ends: str) -> None:
    task = make_task(
        tmp_path / "odd",
        {"kind": "function", "entry": "f", "checker": {"name": "custom"}},
        program_py="def f(x):\n    return x\n",
        tests_jsonl=lines({"split": "public", "args": [1], "expected": 1}),
        checker_py=f"def check(output, expected, arguments):\n    {ends}\n",
    )
    with Judge(task) as judge:
        result = run(judge, task.start.source)
    assert (result.outcome, result.fitness) == (Outcome.UNMEASURED, None)
    assert "checker.py" in result.reason and "bug of the judge" in result.reason and caplog.records


def test_a_machine_that_cannot_run_the_canary_is_named(judge: Judge) -> None:
    runner = judge.inner.runner
    with pytest.raises(SandboxError, match="machine cannot run even a known-good program"):
        canary(Runner(Broken(), runner.preload, runner.limits))
    canary(runner)


def test_feedback_is_bounded_and_printable(judge: Judge) -> None:
    result = run(judge, "def total(items):\n    raise ValueError('\\0\\ud800' + 'x' * 100_000)\n")
    assert len(result.feedback) <= 2000
    result.feedback.encode()
    assert "\0" not in result.feedback + result.reason


@pytest.mark.parametrize("expected", [None, "", 0, [], False])
def test_dying_is_not_the_answer_nothing(tmp_path: Path, expected) -> None:
    """A wrapper that swallows errors and compares what is left would let a crash pass for an empty answer."""
    task = make_task(
        tmp_path / "nothing",
        {"kind": "function", "entry": "f", "limits": {"cpu_s": 0.5, "wall_s": 60.0}},
        program_py=f"def f(x):\n    return {expected!r}\n",
        tests_jsonl=lines(
            {"split": "public", "args": [1], "expected": expected},
            {"split": "hidden", "args": [2], "expected": expected},
        ),
    )
    with Judge(task) as judge:
        assert run(judge, task.start.source).correctness == 1.0
        for body in (
            "raise ValueError",
            "import sys; sys.exit(0)",
            "import os; os._exit(0)",
            "while True: pass",
            "return {}[1]",
        ):
            assert run(judge, f"def f(x):\n    {body}\n").correctness == 0.0


def test_results_that_together_pass_the_output_cap_are_each_fine(tmp_path: Path) -> None:
    task = make_task(
        tmp_path / "wide",
        {
            "kind": "function",
            "entry": "f",
            "tests": {"public": {"sizes": [30_000] * 9}},
            "limits": {"cpu_s": 2.0, "output_bytes": 100_000},
        },
        program_py="def f(n):\n    return 'x' * n\n",
        reference_py="def f(n):\n    return 'x' * n\n",
        generate_py="def generate(size, rng):\n    return (size,)\n",
    )
    with Judge(task) as judge:
        result = run(judge, task.start.source)
        assert result.correctness == 1.0 and result.executions > 1
        too_much = run(judge, "def f(n):\n    return 'x' * 2_000_000\n")
        assert too_much.failure is Failure.OUTPUT


def test_a_small_memory_budget_counts_from_the_warm_worker(tmp_path: Path) -> None:
    task = total_task(tmp_path / "total", preload="numpy+scipy", limits={"cpu_s": 1.0, "memory_mb": 32})
    with Judge(task) as judge:
        assert run(judge, "import numpy, scipy.linalg\n" + TOTAL).correctness == 1.0
        assert run(judge, "import numpy\ndef total(items):\n    return numpy.ones(10**8)\n").failure is Failure.MEMORY


def test_answers_that_are_too_large_end_the_tests_as_endless_ones_do(tmp_path: Path) -> None:
    """Each costs the judge as much as it may: after two of them, the rest is not tried."""
    task = total_task(tmp_path / "total", limits={"cpu_s": 2, "output_bytes": 1000})
    with Judge(task) as judge:
        found = run(judge, "def total(items):\n    return 'x' * 2_000_000\n")
    assert found.outcome is Outcome.FAILED and found.failure is Failure.OUTPUT
    assert statuses(found)[-1] == Status.SKIPPED and found.executions <= 4
