"""Answers of the gate's and the holdout's tasks in the training data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from coevo.errors import UsageError
from coevo.evidence.types import Frame
from coevo.gate.checks.running import failed, passed, unknown
from coevo.gate.fingerprints import Finder
from coevo.gate.settings import GateConfig
from coevo.gate.types import Check, Seen

BATCH = 1_000
FOUND_ALONE = 0.1
"""Share of the tasks whose answers a policy may come upon by itself, over what its parent did: short programs are alike."""


def training_data(config: GateConfig, seen: Seen) -> Check:
    """No prompt of the child's training that was not its parent's holds (nearly all of) an answer; and its responses hit on no more
    answers than a policy finds alone."""
    frame = seen.child.training
    if not seen.answers:
        lacking = "answers" in seen.promised
        return failed("fingerprints of the answers missing") if lacking else unknown("not checked: no fingerprints")
    if frame is None or frame.rows == 0:
        return unknown("not checked: no rollouts of the child's training")
    finder = Finder(seen.answers)
    try:
        asked, found = _tasks(frame, finder)
    except UsageError as e:
        if "training" in seen.promised:
            return failed(f"the texts of the child's training are missing: {e}")
        asked, found = set(), _by_program(frame, finder)
    before = _before(seen, finder)
    prompted = asked - before[0]
    if prompted:
        return failed(f"training prompts hold answers of {_some(prompted)}", tasks=len(prompted))
    new = found - before[1]
    if len(new) >= 2 and len(new) > FOUND_ALONE * len(seen.answers):
        return failed(f"training responses hold answers of {len(new)} tasks: {_some(new)}", tasks=len(new))
    return passed(f"no prompt holds an answer; responses hold those of {len(new)} tasks", tasks=len(new))


def _before(seen: Seen, finder: Finder) -> tuple[set[str], set[str]]:
    """What the parent's training held already, which its own gate was to judge."""
    frame = seen.parent.training
    if frame is None:
        return set(), set()
    try:
        return _tasks(frame, finder)
    except UsageError:
        return set(), _by_program(frame, finder)


def _tasks(frame: Frame, finder: Finder) -> tuple[set[str], set[str]]:
    """(tasks whose answers are in prompts, ... in responses)."""
    asked: set[str] = set()
    found = _by_program(frame, finder)
    known: set[str] = set()
    for row in _rows(frame):
        prompt, response = str(row.get("prompt") or ""), str(row.get("response") or "")
        if prompt not in known:  # One prompt has many responses.
            asked |= finder.in_text(prompt)
            known = {prompt} if len(known) > BATCH else known | {prompt}
        found |= finder.in_text(response)
    return asked, found


def _by_program(frame: Frame, finder: Finder) -> set[str]:
    codes, values = frame.words("program_hash")
    return {task for i in np.unique(codes[codes >= 0]) for task in finder.of_program(values[i])}


def _rows(frame: Frame) -> Iterator[Any]:
    for begin in range(0, frame.rows, BATCH):
        yield from frame.excerpt([frame.number_of(i) for i in range(begin, min(begin + BATCH, frame.rows))])


def _some(tasks: set[str]) -> str:
    listed = sorted(tasks)
    return ", ".join(listed[:4]) + (f" and {len(listed) - 4} more" if len(listed) > 4 else "")
