"""Feedback: what is said, in which order, within which bounds."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coevo.evaluation.efficiency import Speed
from coevo.evaluation.feedback import MAX_CHARS, describe_fault, describe_input, speed_line, suite_feedback
from coevo.evaluation.types import TestResult
from coevo.sandbox.types import CallResult, Limits, Status
from coevo.tasks.types import Test, Timing
from tests.evaluation.folders import total_task

LIMITS = Limits(cpu_s=2, memory_mb=64)


def test_different_kinds_of_failure_come_first() -> None:
    results = [TestResult(f"w{i}", False, "wrong", "x") for i in range(5)]
    results += [
        TestResult("good", True, "ok"),
        TestResult("slow", False, "cpu", "y"),
        TestResult("bad", False, "error", "z"),
    ]
    assert suite_feedback(results).split("\n") == [
        "Passed 1 of 8 tests.",
        "- w0: x",
        "- slow: y",
        "- bad: z",
        "- and 4 more",
    ]
    assert suite_feedback([TestResult("a", True, "ok")], "Speed.") == "Passed all 1 tests.\nSpeed."


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (CallResult(Status.ERROR, error="KeyError: 5", line=3, file="a.py"), "raised KeyError: 5 (line 3 of a.py)"),
        (CallResult(Status.CPU), "over the CPU limit of 2 s"),
        (CallResult(Status.WALL), "over the wall-clock limit of 9 s"),
        (CallResult(Status.MEMORY, error="MemoryError"), "over the memory limit of 64 MB (MemoryError)"),
        (CallResult(Status.SKIPPED, error="not run: too many crashes"), "not run: too many crashes"),
    ],
)
def test_faults(answer: CallResult, said: str) -> None:
    assert describe_fault(answer, LIMITS) == said


def test_every_status_has_words() -> None:
    for status in Status:
        assert describe_fault(CallResult(status), LIMITS)


def test_speed() -> None:
    timing = Timing(size=100, inputs=2)
    assert speed_line(Speed((0.04,), (0.08,)), 0.5, timing) == (
        "Speed at size 100: 2 times slower than the reference (40 ms against 20 ms of CPU time per input)."
    )
    assert "3 times as fast" in speed_line(Speed((3.0,), (1.0,)), 3.0, timing)
    assert "as fast as the reference (" in speed_line(Speed((1.0,), (1.02,)), 1.0, timing)


def test_inputs(tmp_path: Path) -> None:
    task = total_task(tmp_path / "total")
    assert describe_input(task, Test("public", args=([1, 2],), kwargs={"k": "x"})) == "total([1, 2], k='x')"
    assert len(describe_input(task, Test("public", args=tuple([list(range(9999))] * 9)))) <= 320


text = st.text(max_size=3000)


@settings(deadline=None, max_examples=100)
@given(
    st.lists(
        st.tuples(text, st.booleans(), st.sampled_from(["ok", "wrong", "cpu", "error"]), text), min_size=1, max_size=8
    )
)
def test_bounded_whatever_is_said(rows) -> None:
    feedback = suite_feedback([TestResult(*row) for row in rows])
    assert len(feedback) <= MAX_CHARS
    feedback.encode("utf-8")
