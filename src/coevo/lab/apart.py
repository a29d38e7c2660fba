"""One task under two names: what may not be in two splits of a lab."""

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
