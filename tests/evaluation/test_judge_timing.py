"""Timed tasks, end to end: speed is only for the right, every timed answer is checked, nothing survives between runs.

No test asserts a time. Speed-ups are only asserted where programs differ by a large factor in work done.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from coevo.evaluation.efficiency import EfficiencyConfig
from coevo.evaluation.judge import Judge
from coevo.evaluation.suites import load_generator, timing_tests
from coevo.evaluation.types import Evaluation, Outcome
from coevo.programs import Program
from coevo.tasks.types import Task
from tests.evaluation.folders import make_task

REFERENCE = (
    "def count(n, salt):\n    s = salt\n    for i in range(n):\n        s = (s * 31 + i) % 1_000_003\n    return s\n"
)
TIMING = {"size": 40_000, "inputs": 2}


def timed_task(folder: Path, **config) -> Task:
    return make_task(
        folder,
        {
            "kind": "function",
            "entry": "count",
            "tests": {"public": {"sizes": [0, 1, 10]}, "hidden": {"sizes": [2, 20]}},
            "timing": TIMING,
            "limits": {"cpu_s": 1.0, "wall_s": 60.0, "memory_mb": 128},
            **config,
        },
        program_py=REFERENCE,
        reference_py=REFERENCE,
        generate_py="def generate(size, rng):\n    return (size, rng.randrange(1000))\n",
    )


@pytest.fixture(scope="module")
def judge(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Judge]:
    quick = EfficiencyConfig(pairs=2, max_pairs=4)
    with Judge(timed_task(tmp_path_factory.mktemp("tasks") / "count"), efficiency=quick) as judge:
        yield judge


def run(judge: Judge, source: str, split="public", seed: int = 0) -> Evaluation:
    return judge.evaluate(Program.of(source), split=split, seed=seed)


def work(factor: int) -> str:
    """The right answer, found with `factor` times the work."""
    return REFERENCE.replace(
        "    return s",
        f"    for _ in range({factor - 1}):\n        x = salt\n        for i in range(n):\n            x = (x * 31 + i) % 1_000_003\n    return s",
    )


def test_slower_and_faster_programs_are_placed_on_their_side(judge: Judge) -> None:
    slow = run(judge, work(8))
    assert slow.correctness == 1 and slow.speedup is not None and slow.speedup < 0.5
    assert slow.efficiency == pytest.approx(slow.speedup / (1 + slow.speedup))
    assert slow.fitness == pytest.approx(0.7 + 0.3 * slow.efficiency)
    assert "times slower than the reference" in slow.feedback and "at size 40000" in slow.feedback
    assert slow.extra["timing"]["pairs"] >= 2
    slower = run(judge, work(24))
    assert slower.speedup is not None and slower.speedup < slow.speedup


def test_a_wrong_program_is_not_timed(judge: Judge) -> None:
    result = run(judge, REFERENCE.replace("return s", "return s if n != 10 else -1"))
    assert (result.efficiency, result.speedup) == (None, None)
    assert result.fitness == pytest.approx(0.7 * 2 / 3)
    assert result.executions == 1


def test_only_the_candidates_runs_are_charged(judge: Judge) -> None:
    result = run(judge, work(8))
    assert result.executions == 1 + result.extra["timing"]["pairs"]


def test_answers_of_timed_runs_are_checked(judge: Judge) -> None:
    table = run(judge, "def count(n, salt):\n    if n > 1000:\n        return 7\n" + REFERENCE.partition("\n")[2])
    assert table.outcome is Outcome.SCORED and table.correctness == pytest.approx(3 / 4)
    assert table.efficiency is None and "timing at size 40000" in table.feedback
    hidden = run(
        judge,
        "def count(n, salt):\n    if n > 1000:\n        raise ValueError(salt)\n" + REFERENCE.partition("\n")[2],
        "hidden",
    )
    assert hidden.correctness == pytest.approx(2 / 3) and all(not t.detail for t in hidden.tests)


def test_an_answer_cached_within_a_run_is_wrong_for_the_next_input(judge: Judge) -> None:
    source = f"first = []\n{REFERENCE.replace('count', 'work')}\ndef count(n, salt):\n    if n < 1000:\n        return work(n, salt)\n    if not first:\n        first.append(work(n, salt))\n    return first[0]\n"
    result = run(judge, source)
    assert result.correctness == pytest.approx(3 / 4) and result.efficiency is None


def test_nothing_is_cached_between_runs(judge: Judge) -> None:
    """A program that leaves its answers on disk, for later runs to find, finds nothing."""
    source = (
        f"import os, tempfile\n{REFERENCE.replace('count', 'work')}\n"
        "ME = os.urandom(8).hex()\n"  # a process id says nothing: each run has a pid namespace of its own
        "def count(n, salt):\n"
        "    for folder in ('/tmp', '/dev/shm', '/var/tmp', '.', tempfile.gettempdir()):\n"
        "        path = os.path.join(folder, 'left')\n"
        "        if os.path.exists(path) and open(path).read() != ME:\n"
        "            return -1\n"
        "        try:\n"
        "            open(path, 'w').write(ME)\n"
        "        except OSError:\n"
        "            pass\n"
        "    return work(n, salt)\n"
    )
    assert run(judge, source).correctness == 1


def test_too_slow_at_the_timing_size_is_right_but_earns_no_efficiency(judge: Judge) -> None:
    result = run(judge, REFERENCE.replace("    return s", "    while n > 1000:\n        pass\n    return s"))
    assert (result.correctness, result.efficiency, result.speedup) == (1.0, 0.0, None)
    assert result.fitness == pytest.approx(0.7) and "CPU limit" in result.feedback


def test_a_timed_run_that_dies_is_a_failed_test(judge: Judge) -> None:
    result = run(
        judge,
        REFERENCE.replace("    return s", "    if n > 1000:\n        import os\n        os._exit(0)\n    return s"),
    )
    assert result.correctness == pytest.approx(3 / 4) and "ended before" in result.feedback


def test_inputs_are_fresh_for_every_run_and_every_seed_but_not_for_the_same(judge: Judge) -> None:
    task, generate = judge.task, load_generator(judge.task)
    assert generate is not None
    inputs = [
        tuple(t.args for t in timing_tests(task, generate, split=split, seed=seed, run=run))
        for split in ("public", "hidden")
        for seed in (0, 1)
        for run in (0, 1)
    ]
    assert len(set(inputs)) == 8 and all(len(set(args)) == 2 for args in inputs)
    again = timing_tests(task, generate, split="public", seed=0, run=0)
    assert tuple(t.args for t in again) == inputs[0]


def test_stdio_is_timed_too(tmp_path: Path) -> None:
    body = "import sys\nn = int(sys.stdin.read())\ns = 0\nfor i in range({}):\n    s = (s * 31 + i % n) % 1_000_003\n"
    reference = body.format("n") + "print(s)\n"
    task = make_task(
        tmp_path / "loop",
        {"kind": "stdio", "tests": {"public": {"sizes": [5]}}, "timing": TIMING, "fitness": {"name": "metaevolve"}},
        program_py=reference,
        reference_py=reference,
        generate_py="def generate(size, rng):\n    return str(size + rng.randrange(9))\n",
    )
    with Judge(task, efficiency=EfficiencyConfig(pairs=2, max_pairs=3)) as judge:
        slow = run(judge, reference.replace("print", "for i in range(10 * n):\n    x = (s * 31 + i) % 97\nprint"))
        assert slow.correctness == 1 and slow.speedup is not None and slow.speedup < 0.6
        assert 0.7 < (slow.fitness or 0) < 0.75  # metaevolve: milliseconds, not the reference, set the scale
        assert slow.executions == 1 + 2 * slow.extra["timing"]["pairs"]
