"""Evaluations that hold from step to step: a program that was judged is not judged again where nothing could come out differently.

That is so on tasks without timing, whose tests are the same for every seed (`coevo.evaluation.suites`): there the candidate's own random
generators are all that the seed sets, so these evaluations have one seed for the whole run (`judge_seed`), and one that is done again, after a
kill, comes out as the one that was remembered. What the machine failed at, and what ran into a limit of time or memory, is tried again.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from dataclasses import replace

from coevo.evaluation.types import Evaluation, Failure, Outcome
from coevo.sandbox.types import Status
from coevo.streams import stream_seed
from coevo.tasks.types import Kind, TaskConfig

KEPT = 4096
"""Evaluations remembered at most, some kilobytes each."""


def is_steady(config: TaskConfig) -> bool:
    """Whether a program's evaluation depends on nothing but the program."""
    return config.kind in (Kind.FUNCTION, Kind.STDIO) and config.timing is None


def judge_seed(config: TaskConfig, *, seed: int, step: int) -> int:
    """Under which the programs of a step are judged: another one every step, so that no timing input is learnt by heart; on steady tasks
    the same one."""
    return stream_seed(seed, "judge", 0 if is_steady(config) else step)


class Known:
    """The evaluations of a run on steady tasks; the one used longest ago is forgotten first. Thread-safe."""

    def __init__(self, kept: int = KEPT) -> None:
        self._kept, self._lock = kept, threading.Lock()
        self._found: OrderedDict[Hashable, Evaluation] = OrderedDict()

    def find(self, key: Hashable) -> Evaluation | None:
        """The evaluation under a key, at no cost: nothing is executed for it."""
        with self._lock:
            found = self._found.get(key)
            if found is None:
                return None
            self._found.move_to_end(key)
        return replace(found, cpu_s=0.0, wall_s=0.0, executions=0)

    def keep(self, key: Hashable, evaluation: Evaluation) -> None:
        """Remember an evaluation, if it would come out the same again."""
        if evaluation.outcome is Outcome.UNMEASURED or evaluation.failure in (Failure.TIMEOUT, Failure.MEMORY):
            return
        if any(test.status in _LIMITS for test in evaluation.tests):
            return
        with self._lock:
            self._found[key] = evaluation
            while len(self._found) > self._kept:
                self._found.popitem(last=False)


_LIMITS = frozenset({Status.CPU, Status.WALL, Status.MEMORY})
"""Statuses of single tests that a busier machine gives more often."""
