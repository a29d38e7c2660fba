"""One worker, many tasks: the same verdicts as each task's own judge, one sandbox a preload, a bounded number of judges."""

import pickle
import sys
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from coevo.errors import TaskError
from coevo.evaluation.judge import Judge
from coevo.evaluation.judges import Judges, deadline_s, measure, open_judges
from coevo.evaluation.pool import LocalPool
from coevo.evaluation.types import Outcome
from coevo.evaluation.weighing import weight
from coevo.programs import Program
from coevo.sandbox import open_sandbox
from coevo.sandbox.types import Preload, SandboxConfig
from coevo.tasks.sets import load_tasks, task_ref
from tests.evaluation.folders import TOTAL, TOTAL_GENERATE, lines, make_task

RIGHT = "def f(x):\n    return x + {}\n"


def adders(folder, count, **config):
    """Tasks add0, add1, ...: add that number. Two public tests, one hidden."""
    for number in range(count):
        tests = [
            {"split": s, "args": [x], "expected": x + number} for s, x in (("public", 1), ("public", 5), ("hidden", 9))
        ]
        make_task(
            folder / f"add{number}",
            {"kind": "function", "entry": "f", "limits": {"cpu_s": 2, "memory_mb": 128}, **config},
            program_py="def f(x):\n    return x\n",
            tests_jsonl=lines(*tests),
        )
    return load_tasks([str(folder)])


def plain(evaluation):
    """Without what is measured."""
    return {k: v for k, v in vars(evaluation).items() if k not in ("cpu_s", "wall_s", "peak_mb")}


@pytest.fixture(scope="module")
def tasks(tmp_path_factory):
    return adders(tmp_path_factory.mktemp("tasks") / "set", 6)


def test_verdicts_are_those_of_each_tasks_own_judge(tasks):
    sources = [
        "def f(x):\n    return x\n",
        "def f(x):\n    return x + 1\n",
        "def f(x):\n    return 1 / (x - 5)\n",
        "f = 1 +",
    ]
    with Judges([str(task.folder) for task in tasks]) as judges:
        for task in tasks[:3]:
            with Judge(task) as own:
                for program in map(Program.of, sources):
                    for split in ("public", "hidden"):
                        expected = plain(own.evaluate(program, split=split, seed=7))
                        assert plain(judges.evaluate(task.name, program, split=split, seed=7)) == expected


def test_one_sandbox_serves_all_tasks_of_a_preload_and_is_ended_once(tasks, tmp_path, monkeypatch):
    from coevo.sandbox import pool

    started, ended = [], []
    start, close = pool.LocalSandbox.__init__, pool.LocalSandbox.close
    monkeypatch.setattr(
        pool.LocalSandbox, "__init__", lambda self, *a, **k: (started.append(k["preload"]), start(self, *a, **k))[1]
    )
    monkeypatch.setattr(pool.LocalSandbox, "close", lambda self: (ended.append(self), close(self))[1])
    mixed = {task.name: task for task in (*tasks[1:], *adders(tmp_path / "numpy", 1, preload="numpy"))}
    judges = Judges(mixed)
    assert not started
    for name in (*mixed, *mixed):
        number = int(name.removeprefix("add"))
        assert judges.evaluate(name, Program.of(RIGHT.format(number)), split="public", seed=0).fitness == 1.0
    assert sorted(started) == [Preload.NUMPY, Preload.STDLIB]
    judges.close()
    assert len(ended) == 2
    assert judges.evaluate("add1", Program.of(RIGHT.format(1)), split="public", seed=0).fitness == 1.0
    judges.close()


def test_the_judges_used_last_are_kept(tasks):
    with Judges([str(task.folder) for task in tasks], kept=3) as judges:
        for name in ("add0", "add1", "add2", "add0", "add3"):
            judges.judge(name)
        assert judges.held == ("add2", "add0", "add3")
        first = judges.judge("add2")
        assert judges.judge("add2") is first
        judges.judge("add1")
        assert judges.judge("add0") is not first and len(judges.held) == 3


def test_judges_of_large_tests_are_let_go_by_their_size_with_all_they_loaded(tmp_path):
    for name in ("a", "b", "c"):
        make_task(
            tmp_path / "set" / name,
            {"kind": "function", "entry": "total", "tests": {"public": {"sizes": [100_000]}}},
            program_py=TOTAL,
            reference_py=TOTAL,
            generate_py=TOTAL_GENERATE,
        )

    def loaded():
        return [name for name, module in sys.modules.items() if str(tmp_path) in str(getattr(module, "__file__", ""))]

    with Judges([f"{tmp_path}/set"], kept_bytes=5 << 20) as judges:
        for name in ("a", "b", "c", "a"):
            assert judges.evaluate(name, Program.of(TOTAL), split="public", seed=0).fitness == 1.0
            assert 2 << 20 < judges.judge(name).held_bytes < 5 << 20
            assert judges.held == (name,) and len(loaded()) == 1


@given(st.recursive(st.none() | st.integers() | st.floats() | st.text() | st.binary(), lambda inner: st.lists(inner)))
def test_the_weight_of_data_grows_with_what_is_in_it(value):
    assert weight(value) >= sys.getsizeof(value)
    assert weight([value, value]) >= 2 * weight(value)
    assert weight({"k": value}) > weight(value)


def test_the_weight_of_arrays_is_their_buffers():
    assert 8_000_000 < weight(np.zeros(10**6)) < 8_001_000


def test_a_given_sandbox_is_left_open_by_a_judge(tasks):
    program = Program.of(RIGHT.format(0))
    with open_sandbox(SandboxConfig(), preload=Preload.STDLIB) as sandbox:
        for _ in range(2):
            with Judge(tasks[0], sandbox=sandbox) as judge:
                assert judge.evaluate(program, split="public", seed=0).fitness == 1.0
                assert judge.level == sandbox.level


def test_a_task_that_cannot_be_judged_stops_no_other(tasks, tmp_path):
    broken = make_task(
        tmp_path / "broken",
        {"kind": "function", "entry": "f"},
        program_py="def f(x):\n    return x\n",
        reference_py="def f(x):\n    return None\n",
        tests_jsonl=lines({"split": "public", "args": [1], "expected": 1}),
    )
    with Judges([broken, tasks[1]]) as judges:
        for _ in range(2):
            with pytest.raises(TaskError, match="the reference fails"):
                judges.evaluate("broken", Program.of(RIGHT.format(0)), split="public", seed=0)
            assert judges.evaluate("add1", Program.of(RIGHT.format(1)), split="public", seed=0).fitness == 1.0


def test_names_that_are_unknown_changed_or_given_twice(tasks):
    with pytest.raises(TaskError, match="two tasks are called 'add0'"):
        Judges([tasks[0], str(tasks[0].folder)])
    with Judges({"add0": str(tasks[1].folder)}) as judges:
        with pytest.raises(TaskError, match=r"'add9' is not among the 1 tasks judged here. Did you mean 'add0'"):
            judges.judge("add9")
        with pytest.raises(TaskError, match="was task 'add0' and is now 'add1'"):
            judges.judge("add0")


def test_a_pool_of_judges_takes_all_tasks_to_its_workers(tasks):
    refs = {task.name: task_ref(task) for task in tasks}
    setup = partial(Judges, refs, sandbox=SandboxConfig())
    pickle.loads(pickle.dumps(setup))
    jobs = [(task.name, Program.of(RIGHT.format(int(task.name[3:]) + wrong))) for task in tasks for wrong in (0, 1)]
    with LocalPool(2, setup) as pool:
        futures = [pool.submit(measure, name, program, "public", 3, deadline_s=30.0) for name, program in jobs]
        assert [future.result().fitness for future in futures] == [1.0, 0.0] * len(tasks)
    with open_judges("inline", tasks) as pool:
        found = pool.submit(measure, "add2", Program.of("def f(x):\n    return 1 / 0\n"), "public", 3).result()
        assert found.outcome is Outcome.FAILED
    assert deadline_s(tasks[0]) > 40 * tasks[0].config.limits.wall
