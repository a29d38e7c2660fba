"""What may not be in two splits of a lab: one task under two names, and the answer of one task shown by another."""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from coevo.errors import GateBlocked
from coevo.tasks.testfile import FILE as TESTS

SAME = 0.9
"""Share of the fewer tests of two tasks that both have, from which on they are one task. Puzzles of one family, made at random, shared up to 0.84."""
FEWEST = 5
"""Tests under which only the very same ones count."""
COMMON = 1_000
"""Tasks that have a test, beyond which it says nothing of any."""
NAMED = 8
"""Tasks that a message names."""


def require_own_tests(splits: Mapping[str, Sequence[Any]]) -> None:
    """Raise `GateBlocked` where tasks of two splits have (nearly) the same written tests: one task under two names, whatever else was edited. What
    a test is called, which split of its task it is in, and how its line is written do not count."""
    where: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    shared: Counter[tuple[tuple[str, str], tuple[str, str]]] = Counter()
    size: dict[tuple[str, str], int] = {}
    for split, some in splits.items():
        for task in some:
            if TESTS not in task.source_files:
                continue
            me = split, task.name
            tests = set(_tests((task.folder / TESTS).read_bytes().splitlines()))
            size[me] = len(tests)
            for test in tests:
                if len(where[test]) < COMMON:
                    shared.update((other, me) for other in where[test] if other[0] != split)
                    where[test].append(me)
    same = [(a, b) for (a, b), count in shared.items() if _same(count, size[a], size[b])]
    if same:
        named = ", ".join(f"{b[1]!r} of tasks.{b[0]} and {a[1]!r} of tasks.{a[0]}" for a, b in same[:NAMED])
        more = f", and {len(same) - NAMED} more" if len(same) > NAMED else ""
        raise GateBlocked(
            f"tasks of two splits have (nearly) the same tests, and are one task under two names: {named}{more}. Take one of each two out"
        )


def _same(shared: int, a: int, b: int) -> bool:
    return shared == max(a, b) or (min(a, b) >= FEWEST and shared >= SAME * min(a, b))


def _tests(lines: Iterable[bytes]) -> Iterable[str]:
    """A digest of every test by what it says, in no order."""
    for line in lines:
        if not line.strip():
            continue
        try:
            said = json.loads(line)
        except ValueError:
            said = line.decode("utf-8", "replace")  # The loader names what is wrong with it.
        if isinstance(said, dict):
            said = {key: value for key, value in said.items() if key not in ("name", "split")}
        yield hashlib.sha256(json.dumps(said, sort_keys=True).encode()).hexdigest()


def answers_of(tasks: Iterable[Any]) -> dict[str, tuple[str, ...]]:
    """Task -> fingerprints of its reference program, for tasks that have one."""
    from coevo.gate.fingerprints import fingerprints

    return {
        task.name: fingerprints([text for _, text in task.reference.files], programs=[task.reference.id])
        for task in tasks
        if task.reference is not None
    }


def shown_answers(training: Sequence[Any], held: Sequence[Any]) -> dict[str, str]:
    """Training tasks (names) that show the answer of a held one (its name): in their statement, or as their start program."""
    from coevo.gate.fingerprints import Finder

    finder = Finder(answers_of(held))
    found = {}
    for task in training:
        texts = (task.config.statement, *(text for _, text in task.start.files))
        if hit := finder.of_program(task.start.id).union(*(finder.in_text(text) for text in texts)):
            found[task.name] = min(hit)
    return found


def require_no_answers(training: Sequence[Any], held: Sequence[Any]) -> None:
    """Raise `GateBlocked` where training tasks show the answer of one that selects. The gate looks at what was put before the policy later, but
    takes what a policy wrote in its own searches for its own."""
    if found := shown_answers(training, held):
        named = ", ".join(f"{task} (of {other})" for task, other in list(found.items())[:NAMED])
        more = f", and {len(found) - NAMED} more" if len(found) > NAMED else ""
        raise GateBlocked(
            f"{len(found)} of {len(training)} tasks of tasks.train show the answer of a task by which branches are selected, in their statement or as "
            f"their start program: {named}{more}. Take them, or those, out"
        )
