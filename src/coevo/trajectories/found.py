"""What the committed steps of a synthesis amount to: a fold of its `answer` events."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from sys import intern
from typing import Any, NamedTuple

from coevo.runs import Run
from coevo.streams import stream_seed
from coevo.trajectories.arrange import START

EVENT = "answer"
"""Kind of the event that commits a step."""


class Measured(NamedTuple):
    """An answer that was scored or failed."""

    number: int
    program: str
    origin: str


@dataclass
class Found:
    """What the committed steps amount to: their fold."""

    last: int = -1
    answers: dict[int, list[Measured]] = field(default_factory=dict)
    """Per task: its measured answers."""
    counts: Counter[str] = field(default_factory=Counter)
    """Answers by what became of them."""
    judged: set[tuple[int, int]] = field(default_factory=set)
    """Task and program of everything that was charged for."""

    def apply(self, step: int, row: Mapping[str, Any]) -> None:
        self.last = step
        program, outcome = row.get("program"), row["outcome"]
        if program is not None and outcome in ("scored", "failed"):
            self.answers.setdefault(row["task"], []).append(Measured(row["number"], program, intern(row["origin"])))
            self.judged.add((row["task"], int(program, 16)))
        self.counts["start_programs" if row["number"] == START else "answers"] += 1
        if row["number"] != START or outcome == "unmeasured":
            self.counts[outcome] += 1


def fold(run: Run) -> Found:
    """The answers committed so far."""
    found = Found()
    for event in run.events(kinds=(EVENT,)):
        found.apply(event.step or 0, event.payload)
    return found


def task_seed(seed: int, task: str) -> int:
    """Seed of all evaluations on a task: its programs meet the same inputs. Differs by task, since a run keeps one evaluation per
    program, split and seed."""
    return stream_seed(seed, "evaluation", task) % 2**31
