"""Twins are drawn for all tasks at once: the numbers are those that a task at a time would draw."""

from __future__ import annotations

import numpy as np
import pytest

from coevo.gate.twins import Tasks
from coevo.streams import array_stream


@pytest.mark.parametrize("tasks", [9, 14])
@pytest.mark.parametrize("most", [0, 30])
def test_all_tasks_at_once_draw_as_one_by_one(tasks: int, most: int) -> None:
    rng = array_stream(3, "measured", most)
    samples = [rng.random(int(rng.integers(1, most)) if most else 24) for _ in range(9)]
    parent, child = Tasks.of(samples).looks(array_stream(3, "twins"), tasks=tasks, looks=3, samples=4, gain=0.05)
    again = array_stream(3, "twins")
    chosen = np.arange(9) if tasks == 9 else again.integers(0, 9, tasks)
    for i, task in enumerate(chosen):
        values = samples[task]
        stretch = np.sqrt(len(values) / (len(values) - 1)) if len(values) > 1 else 1.0
        drawn = values.mean() + stretch * (again.choice(values, (2, 3, 4)) - values.mean())
        assert np.array_equal(parent[i], drawn[0]) and np.array_equal(child[i], drawn[1] + 0.05)
