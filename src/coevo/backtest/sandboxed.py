"""Diagnostics that an agent wrote: `measure(columns) -> float`, run behind walls.

    with Bench() as bench:
        value, why = bench.measure(source_code, columns_of(frame))

The code gets arrays by column name: numbers as float64 (NaN where missing), words as arrays of strings ("" where missing), and `group`: a number for each rollout's
group. Columns that name a branch are withheld. Whatever it does (raises, hangs, forks, returns no number) is a reason why there is no value, never an error.
"""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Mapping
from typing import Any

import numpy as np

from coevo.backtest.syntax import HIDDEN
from coevo.errors import CoevoError
from coevo.evidence.types import Frame
from coevo.sandbox import Call, Job, Limits, Preload, Sandbox, SandboxConfig, Status, open_sandbox
from coevo.streams import array_stream

MOST_ROWS = 50_000
"""Rollouts handed over at most: whole groups, picked at random under a fixed seed."""
LIMITS = Limits(cpu_s=5.0, wall_s=15.0, memory_mb=512, output_bytes=1 << 16, disk_mb=16, processes=0)
SEED = 20_260
BOUND = 1e12
"""A value beyond it is no measurement."""

_PROPOSED = "proposed.py"
_DRIVER = """\
import numpy

from proposed import measure


def run(numbers, words):
    columns = dict(numbers)
    for name, (codes, values) in words.items():
        columns[name] = numpy.array([*values, ""], dtype=str)[codes]
    return measure(columns)
"""


class Bench:
    """A sandbox with numpy, opened when first used, for any number of diagnostics. Thread-safe; closes itself when it is no longer referenced."""

    def __init__(self, config: SandboxConfig | None = None, *, limits: Limits = LIMITS) -> None:
        self._config, self._limits = config or SandboxConfig(), limits
        self._lock = threading.Lock()
        self._sandbox: Sandbox | None = None

    def measure(self, source_code: str, columns: Mapping[str, Any]) -> tuple[float | None, str]:
        """The value, or None and why there is none. Raises `WallsError` where this machine cannot raise the walls."""
        numbers = {name: value for name, value in columns.items() if isinstance(value, np.ndarray)}
        words = {name: value for name, value in columns.items() if not isinstance(value, np.ndarray)}
        job = Job(
            files=((_PROPOSED, source_code), ("driver.py", _DRIVER)),
            main="driver.py",
            entry="run",
            calls=(Call((numbers, words)),),
            preload=Preload.NUMPY,
            limits=self._limits,
            seed=SEED,
        )
        execution = self._opened().run(job)
        call = execution.calls[0] if execution.calls else None
        if execution.status is Status.OK and call is not None and call.status is Status.OK:
            return _number(call.value)
        error = (call.error if call is not None and call.error else "") or execution.error
        where = call if call is not None and call.line else execution
        line = f", line {where.line}" if where.line and where.file in (None, _PROPOSED) else ""
        return (
            None,
            f"{_WORDS.get(execution.status, str(execution.status))}{line}{': ' if error else ''}{' '.join(error.split())[:200]}",
        )

    def _opened(self) -> Sandbox:
        with self._lock:
            if self._sandbox is None:
                self._sandbox = open_sandbox(self._config, preload=Preload.NUMPY, workers=1)
            return self._sandbox

    def close(self) -> None:
        with self._lock:
            if self._sandbox is not None:
                self._sandbox.close()
            self._sandbox = None

    def __enter__(self) -> Bench:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __del__(self) -> None:
        with contextlib.suppress(CoevoError, OSError, AttributeError):
            self.close()


def columns_of(frame: Frame) -> dict[str, Any]:
    """What a measure is given: float64 arrays, and (codes, values) of words."""
    rows = np.arange(frame.rows)
    if frame.rows > MOST_ROWS:
        groups = frame.groups
        order = array_stream(SEED, "rows", int(groups.max()) + 1).permutation(int(groups.max()) + 1)
        kept = order[np.cumsum(np.bincount(groups)[order]) <= MOST_ROWS]
        rows = np.flatnonzero(np.isin(groups, kept)) if len(kept) else rows[:MOST_ROWS]
    found: dict[str, Any] = {}
    for name in frame.columns:
        if name in HIDDEN or name == "group":
            continue
        if name in frame.words_by_name:
            codes, values = frame.words(name)
            used, inverse = np.unique(codes[rows], return_inverse=True)
            names = [values[code] if code >= 0 else "" for code in used]
            found[name] = (inverse.astype(np.int64), names)
        else:
            found[name] = np.ascontiguousarray(frame.numbers(name)[rows], dtype=np.float64)
    _, groups = np.unique(frame.groups[rows], return_inverse=True)
    found["group"] = groups.astype(np.float64)
    return found


def _number(value: Any) -> tuple[float | None, str]:
    """Numbers only: a numpy scalar or an array of one counts, a truth value or a text does not."""
    if isinstance(value, np.ndarray) and value.size == 1 and value.dtype.kind in "iuf":
        value = value.reshape(-1)[0]
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | float | np.integer | np.floating):
        return None, f"it returned {type(value).__name__}, not a number"
    try:
        found = float(value)
    except OverflowError:
        found = math.inf
    if math.isnan(found):
        return None, "it returned NaN"
    if abs(found) > BOUND:
        return None, f"it returned {found:g}, which is no measurement"
    return found, ""


_WORDS = {
    Status.ERROR: "it raised",
    Status.EXITED: "it exited",
    Status.CRASHED: "it crashed",
    Status.CPU: "it took more CPU time than it may",
    Status.WALL: "it took longer than it may",
    Status.MEMORY: "it took more memory than it may",
    Status.OUTPUT: "it printed more than it may",
    Status.INVALID: "it returned something that is not plain data",
    Status.INFRASTRUCTURE: "the sandbox failed",
}
