"""Diagnostics that an agent wrote, hostile ones included: a value, or why there is none; never an error, never an admission."""

from __future__ import annotations

import numpy as np
import pytest

from coevo.backtest import Bench, Plain, admit, diagnostic_of
from coevo.backtest.sandboxed import LIMITS, MOST_ROWS, columns_of
from coevo.diagnostics.diagnose import diagnose
from coevo.diagnostics.types import Level
from coevo.evidence import frame_of

ROWS = [
    {
        "run": "r",
        "branch": "b",
        "step": s,
        "group": f"g{s}",
        "task": "t",
        "split": "train",
        "reward": float(i),
        "tokens": None if i else 7,
        "stop_reason": "length" if i else None,
    }
    for s in range(3)
    for i in range(2)
]
FRAME = frame_of(ROWS)
HOSTILE = {
    "raises": ("def measure(c):\n    return 1 / 0", "line 2: ZeroDivisionError"),
    "no such column": ("def measure(c):\n    return c['nope']", "KeyError"),
    "does not parse": ("def measure(c:", "SyntaxError"),
    "defines nothing": ("x = 1", "cannot import name 'measure'"),
    "loops": ("def measure(c):\n    while True:\n        pass", "CPU time|longer than it may"),
    "sleeps": ("import time\n\n\ndef measure(c):\n    time.sleep(60)", "longer than it may"),
    "loops while loading": ("while True:\n    pass", "CPU time|longer than it may"),
    "forks": ("import os\n\n\ndef measure(c):\n    os.fork()\n    return 1.0", "not permitted|raised|crashed"),
    "eats memory": ("def measure(c):\n    return float(len(bytearray(4 << 30)))", "memory"),
    "prints": ("def measure(c):\n    print('x' * (1 << 20))\n    return 1.0", "printed more"),
    "exits": ("import os\n\n\ndef measure(c):\n    os._exit(0)", "exited"),
    "nan": ("def measure(c):\n    return float('nan')", "NaN"),
    "inf": ("def measure(c):\n    return float('inf')", "no measurement"),
    "huge": ("def measure(c):\n    return 10 ** 400", "no measurement"),
    "text": ("def measure(c):\n    return '0.5'", "str, not a number"),
    "truth value": ("def measure(c):\n    return True", "bool, not a number"),
    "array": ("def measure(c):\n    return c['reward']", "ndarray, not a number"),
    "nothing": ("def measure(c):\n    pass", "NoneType, not a number"),
    "an object": ("class X(float):\n    pass\n\n\ndef measure(c):\n    return object()", "plain data"),
    "reads the host": ("def measure(c):\n    return float(len(open('/etc/passwd').read()))", "raised"),
    "imports us": ("import coevo\n\n\ndef measure(c):\n    return 1.0", "ModuleNotFoundError"),
}


@pytest.fixture(scope="module")
def strict():
    with Bench(limits=LIMITS.model_copy(update={"cpu_s": 0.3, "wall_s": 3.0})) as made:
        yield made


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_code_has_no_value_and_a_reason(strict, name: str) -> None:
    import re

    source, why = HOSTILE[name]
    value, said = strict.measure(source, columns_of(FRAME))
    assert value is None and re.search(why, said), said


def test_it_is_unknown_in_a_diagnosis_and_never_admitted(strict, branches) -> None:
    made = diagnostic_of(Plain("bad-one", "", "f", "", 1.0, 2.0, HOSTILE["raises"][0]), bench=strict)
    said = diagnose(FRAME, diagnostics={"bad-one": made}, rules=())
    assert said.findings[0].level is Level.UNKNOWN and "ZeroDivisionError" in said.unknown["bad-one"]
    found = admit(made, branches, {}, seed=0)
    assert not found.admitted and "ZeroDivisionError" in found.reason


def test_what_it_is_given(bench) -> None:
    source = """
import numpy as np


def measure(c):
    assert set(c) >= {"step", "task", "split", "reward", "tokens", "stop_reason", "group"}
    assert "run" not in c and "branch" not in c
    assert c["reward"].dtype == np.float64 and np.isnan(c["tokens"]).sum() == 3
    assert list(c["stop_reason"]) == ["", "length"] * 3 and list(c["group"]) == [0, 0, 1, 1, 2, 2]
    c["reward"][:] = 100
    c.clear()
    return np.float32(0.5)
"""
    columns = columns_of(FRAME)
    assert bench.measure(source, columns) == (0.5, "")
    assert bench.measure(source, columns) == (0.5, "")
    assert FRAME.numbers("reward").tolist() == [0, 1] * 3


def test_many_rollouts_are_handed_over_in_whole_groups() -> None:
    rows = MOST_ROWS + 5_000
    frame = frame_of({"group": f"g{i // 8}", "reward": float(i % 8), "split": "train"} for i in range(rows))
    columns = columns_of(frame)
    assert MOST_ROWS - 8 <= len(columns["reward"]) <= MOST_ROWS
    assert set(np.bincount(columns["group"].astype(int))) == {8}
    assert np.array_equal(columns["reward"], columns_of(frame)["reward"])


def test_a_bench_can_be_closed_and_goes_on() -> None:
    with Bench() as bench:
        assert bench.measure("def measure(c): return 2", columns_of(FRAME))[0] == 2
        bench.close()
        assert bench.measure("def measure(c): return 3", columns_of(FRAME))[0] == 3
