"""What a search shows while it runs."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from coevo import pictures
from coevo.cli.progress import Board, _lines, sparkline


def test_lines_come_also_while_no_step_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    told = threading.Event()
    said: list[str] = []

    def note(text: str, **_: Any) -> None:
        said.append(text)
        told.set()

    monkeypatch.setattr("builtins.print", note)
    with _lines(Board("task", True), every_s=0.01):
        assert told.wait(60)
    assert said[0].endswith("s: waiting, starting")


def test_a_sparkline_has_its_best_last() -> None:
    assert sparkline([], 5) == "" and sparkline([1.0, 1.0], 5) == "▁▁"
    assert sparkline([0.0, 0.5, 1.0], 5) == "▁▅█" and len(sparkline([float(i) for i in range(100)], 60)) == 60


@pytest.mark.parametrize("better", ["max", "min"])
def test_the_value_axis_shows_the_rise_and_not_the_failures(better: str) -> None:
    sign = 1 if better == "max" else -1
    best = [sign * 2.2, sign * 2.3, sign * 2.4]
    values = [*best, *(sign * v for v in (0.1, 0.2, 0.3, 2.1, -50.0))]
    low, high = sorted(sign * v for v in pictures.window(values, best, better))
    assert 1.7 < low < 2.1 and 2.4 < high < 2.5


def test_the_value_axis_has_a_height_whatever_came() -> None:
    for values, best in (([1.0], [1.0]), ([0.0, 0.0], [0.0, 0.0]), ([0.7, 0.0, 0.3], [0.7, 0.7])):
        low, high = pictures.window(values, best, "max")
        assert low < min(best) and high > max(best)
