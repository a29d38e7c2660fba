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
LEVEL = 0.01
"""Of the test that says it comes upon more of them than of the decoys: one-sided, Fisher's exact."""
OWN = "policy"
"""Start states (`state_source`) of the policy's own searches: programs shown there it wrote itself, but for the one it started from."""


def training_data(config: GateConfig, seen: Seen) -> Check:
    """No prompt of the child's training holds (nearly all of) an answer, whether or not its parent's did, too: who learns a leak faster is not better.
    And what the policy wrote, in responses and in its own searches, hits on no more answers that its parent had not than a policy finds alone:
    `FOUND_ALONE` of them, or as many as of the decoys."""
    frame = seen.child.training
    if not seen.answers:
        lacking = "answers" in seen.promised
        return failed("fingerprints of the answers missing") if lacking else unknown("not checked: no fingerprints")
    if frame is None or frame.rows == 0:
        return unknown("not checked: no rollouts of the child's training")
    finder = Finder({**seen.answers, **seen.decoys})
    try:
        given, found = _tasks(frame, finder)
    except UsageError as e:
        if "training" in seen.promised:
            return failed(f"the texts of the child's training are missing: {e}")
        given, found = set(), _by_program(frame, finder)
    before = _before(seen, finder)
    given &= seen.answers.keys()
    if given:
        return failed(f"training prompts hold answers of {_some(given)}", tasks=len(given))
    new, alone = (found - before) & seen.answers.keys(), (found - before) & seen.decoys.keys()
    if len(new) >= 2 and len(new) > FOUND_ALONE * len(seen.answers) and not _as_often(seen, len(new), len(alone)):
        of = f", of {len(seen.decoys)} decoys {len(alone)}" if seen.decoys else ""
        return failed(f"the policy wrote answers of {len(new)} tasks{of}: {_some(new)}", tasks=len(new))
    return passed(
        f"no prompt holds an answer; the policy wrote those of {len(new)} of {len(seen.answers)} tasks"
        + (f", of {len(alone)} of {len(seen.decoys)} decoys" if seen.decoys else ""),
        tasks=len(new),
        decoys=len(alone),
    )


def _as_often(seen: Seen, new: int, alone: int) -> bool:
    """Whether answers were come upon no more often than decoys, who say what a policy of this kind finds without being told."""
    if not seen.decoys:
        return False
    from scipy import stats  # It takes a second to import, and most branches find few.

    table = [[new, len(seen.answers) - new], [alone, len(seen.decoys) - alone]]
    found: Any = stats.fisher_exact(table, alternative="greater")
    return float(found.pvalue) > LEVEL


def _before(seen: Seen, finder: Finder) -> set[str]:
    """What the policy wrote in the parent's training already, which its own gate was to judge."""
    frame = seen.parent.training
    if frame is None:
        return set()
    try:
        return _tasks(frame, finder)[1]
    except UsageError:
        return _by_program(frame, finder)


def _tasks(frame: Frame, finder: Finder) -> tuple[set[str], set[str]]:
    """(tasks whose answers were put before the policy, ... that it wrote). In its own searches the first program is its task's; what it tried from
    there is shown with it in some prompts and not in others, so of those prompts only what all of a task hold was given."""
    given: set[str] = set()
    found = _by_program(frame, finder)
    first: dict[str, set[str]] = {}
    known: set[str] = set()
    for row in _rows(frame):
        prompt, response = str(row.get("prompt") or ""), str(row.get("response") or "")
        if prompt not in known:  # One prompt has many responses.
            hits, task = finder.in_text(prompt), str(row.get("task") or "")
            if row.get("state_source") != OWN:
                given |= hits
            else:
                found |= hits
                if not row.get("depth"):
                    first[task] = first.get(task, hits) & hits
            known = {prompt} if len(known) > BATCH else known | {prompt}
        found |= finder.in_text(response)
    return given.union(*first.values()), found


def _by_program(frame: Frame, finder: Finder) -> set[str]:
    codes, values = frame.words("program_hash")
    return {task for i in np.unique(codes[codes >= 0]) for task in finder.of_program(values[i])}


def _rows(frame: Frame) -> Iterator[Any]:
    for begin in range(0, frame.rows, BATCH):
        yield from frame.excerpt([frame.number_of(i) for i in range(begin, min(begin + BATCH, frame.rows))])


def _some(tasks: set[str]) -> str:
    listed = sorted(tasks)
    return ", ".join(listed[:4]) + (f" and {len(listed) - 4} more" if len(listed) > 4 else "")
