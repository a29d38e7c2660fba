"""One number over a run that must come out the same again: same seed, same replies, any number of workers, any kills.

Covered: every event of the work (without its id, which is arrival order), programs, evaluations, completions, rollouts,
and what was spent. Left out, since they are measured or are about the folder:

* values under the keys of `MEASURED`, at any depth;
* events whose kind begins with `run.`;
* verification (`verified` events, evaluations on hidden tests): it reads the result, as often as a run stops;
* the dimensions `minutes` and `cpu_minutes` of the ledger.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from itertools import groupby
from typing import TYPE_CHECKING, Any

from coevo.runs import folder
from coevo.runs.jsontext import dumps, loads

if TYPE_CHECKING:
    from coevo.runs.store import Run

MEASURED = frozenset({"ts", "wall_s", "cpu_s", "peak_mb", "arrival", "worker", "pid", "attempts", "timing", "asked"})
"""Keys whose values may differ between equal runs. `asked` is an estimate made before the work: a replay has another tokenizer."""

_EVALUATIONS = "SELECT program_id, split, seed, payload FROM evaluations WHERE split <> 'hidden' ORDER BY 1, 2, 3"

_LEDGER = ("evaluations", "proposals", "tokens", "usd")


def digest(run: Run, *, kinds: Sequence[str] = ()) -> str:
    """SHA-256 in hexadecimal. Other threads that use the run wait meanwhile.

    With `kinds`, of the events of these kinds alone. A search's `candidate` events name its programs and say how they were
    judged; beside them, a run that was killed or left holds what had arrived for steps that never committed.
    """
    with folder.reading(run.path), run.transaction() if run.writable else nullcontext():
        return hashlib.sha256(b"".join(_events(run, kinds))).hexdigest() if kinds else _digest(run)


def _digest(run: Run) -> str:
    total = hashlib.sha256()
    for section, lines in (
        ("events", _events(run)),
        ("programs", _rows(run, "SELECT id, main, files FROM programs ORDER BY id", raw=True)),
        ("evaluations", _rows(run, _EVALUATIONS)),
        ("completions", _rows(run, "SELECT key, payload FROM completions ORDER BY key")),
        ("rollouts", sorted(_rows(run, "SELECT payload FROM rollouts"))),
        ("spent", [dumps({name: run.ledger.spent()[name] for name in _LEDGER}).encode()]),
    ):
        part = hashlib.sha256()
        for line in lines:
            part.update(len(line).to_bytes(8, "big") + line)
        total.update(section.encode() + part.digest())
    return total.hexdigest()


def without_measured(value: Any) -> Any:
    """The same plain data without the keys of `MEASURED`."""
    if isinstance(value, dict):
        return {k: without_measured(v) for k, v in value.items() if k not in MEASURED}
    if isinstance(value, list):
        return [without_measured(item) for item in value]
    return value


def _canonical(payload: str) -> str:
    return dumps(without_measured(loads(payload)), canonical=True)


def _events(run: Run, kinds: Sequence[str] = ()) -> Iterator[bytes]:
    only = f"kind IN ({', '.join('?' * len(kinds))})" if kinds else "kind NOT LIKE 'run.%' AND kind <> 'verified'"
    rows = run.connection.execute(
        f"SELECT step, kind, payload FROM events WHERE {only} ORDER BY step IS NOT NULL, step, kind", tuple(kinds)
    )
    for (step, kind), group in groupby(rows, key=lambda row: row[:2]):
        for payload in sorted(_canonical(row[2]) for row in group):
            yield dumps([step, kind, payload]).encode()


def _rows(run: Run, sql: str, *, raw: bool = False) -> Iterable[bytes]:
    for row in run.connection.execute(sql):
        *keys, last = row
        yield dumps([*keys, hashlib.sha256(last).hexdigest() if raw else _canonical(last)]).encode()
