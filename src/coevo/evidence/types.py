"""Rollouts as columns. One `Frame` is a set of evidence rows (schema 1), whoever trained; diagnostics, backtests and the gate are
functions of it.

Numbers are float64 with NaN where a row lacks the value; truth values are 1.0 and 0.0; words are codes into a list of values.
`parts` of the reward are columns `parts.NAME`; what was computed from prompts and responses while reading is columns `text.NAME`
(`coevo.evidence.features`); columns the schema does not know are kept under their own names. Texts themselves stay where they are:
`excerpt` reads the rows one wants to show.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

import numpy as np

from coevo.errors import UsageError

NUMBERS = (
    *(
        "schema",
        "step",
        "sample",
        "reward",
        "truth",
        "contract_ok",
        "copy",
        "meaning_ok",
        "tokens",
        "turns",
        "tool_calls",
    ),
    *("tool_errors", "advantage", "logprob_mean", "entropy_mean", "kept", "wall_s", "cost_usd", "parent_fitness"),
    *("fitness", "correctness", "efficiency", "depth"),
)
"""Columns of schema 1 that are numbers or truth values."""

WORDS = (
    *(
        "run",
        "branch",
        "split",
        "task",
        "group",
        "kind",
        "stop_reason",
        "unmeasured_reason",
        "edit_kind",
        "program_hash",
    ),
)
"""Columns of schema 1 that are words; "" is a value ("nothing was wrong"), None is missing."""

TEXTS = ("prompt", "response")
"""Not held in memory."""


T = TypeVar("T")


class Words(NamedTuple):
    """A column of words: `values[codes[i]]` is row i's; code -1 is missing."""

    codes: np.ndarray
    """int64 of (rows,)."""
    values: tuple[str, ...]


Fetch = Callable[[Sequence[int]], list[dict[str, Any]]]
"""Whole rows, texts included, by row number of the source."""


@dataclass(frozen=True)
class Frame:
    """Rows as columns; immutable. `rows` numbers of each column."""

    rows: int
    numbers_by_name: Mapping[str, np.ndarray]
    words_by_name: Mapping[str, Words]
    source: str = ""
    """Where it came from, for a person."""
    notes: tuple[str, ...] = ()
    """What reading found: lines that were no rows, columns of the wrong type."""
    numbering: np.ndarray | None = None
    """Row number in the source of each row; None: as they stand."""
    fetch: Fetch | None = field(default=None, compare=False)
    truth: str = ""
    """How whoever wrote it would add the column `truth`, as a line of code."""

    def has(self, name: str) -> bool:
        """Whether any row has a value in this column."""
        if (words := self.words_by_name.get(name)) is not None:
            return bool((words.codes >= 0).any())
        found = self.numbers_by_name.get(name)
        return found is not None and bool(np.isfinite(found).any())

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of all columns that hold a value."""
        return tuple(name for name in (*self.words_by_name, *self.numbers_by_name) if self.has(name))

    @property
    def parts(self) -> tuple[str, ...]:
        """Names of the reward's parts."""
        return tuple(n.removeprefix("parts.") for n in self.numbers_by_name if n.startswith("parts.") and self.has(n))

    def numbers(self, name: str) -> np.ndarray:
        """float64 of (rows,), NaN where missing (everywhere, if the column is)."""
        found = self.numbers_by_name.get(name)
        return np.full(self.rows, np.nan) if found is None else found

    def words(self, name: str) -> Words:
        """Codes and values; all codes are -1 where the column is missing."""
        found = self.words_by_name.get(name)
        return Words(np.full(self.rows, -1, dtype=np.int64), ()) if found is None else found

    def is_word(self, name: str, value: str) -> np.ndarray:
        """bool of (rows,): whether the column says `value`."""
        codes, values = self.words(name)
        return codes == values.index(value) if value in values else np.zeros(self.rows, dtype=bool)

    @cached_property
    def groups(self) -> np.ndarray:
        """int64 of (rows,): equal for rows of one group, i.e. the same run, branch, split, step and group (for rows without a group: task);
        numbered from 0 in order of appearance."""
        names = ("run", "branch", "split", "group" if self.has("group") else "task")
        steps = np.nan_to_num(self.numbers("step"), nan=-1.0)
        if np.abs(steps).max(initial=0) > 1e15 or (steps != np.floor(steps)).any():
            _, steps = np.unique(steps, return_inverse=True)
        steps = steps.astype(np.int64)
        steps -= steps.min(initial=0)
        key, size = np.zeros(self.rows, dtype=np.int64), 1
        for codes in (steps, *(self.words(name).codes + 1 for name in names)):
            count = int(codes.max(initial=0)) + 1
            if size * count > 1 << 62:  # The numbers of what there is instead of those of what there could be.
                _, codes = np.unique(codes, return_inverse=True)
                _, key = np.unique(key, return_inverse=True)
                size, count = int(key.max()) + 1, int(codes.max()) + 1
            key, size = key * count + codes, size * count
        _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
        rank = np.empty(len(first), dtype=np.int64)
        rank[np.argsort(first, kind="stable")] = np.arange(len(first))
        return rank[inverse.reshape(-1)]

    @cached_property
    def measured(self) -> np.ndarray:
        """bool of (rows,): rows with a reward and without a reason for having none."""
        codes, values = self.words("unmeasured_reason")
        empty = values.index("") if "" in values else -1
        return np.isfinite(self.numbers("reward")) & ((codes == -1) | (codes == empty))

    def once(self, name: str, make: Callable[[], T]) -> T:
        """`make()`, which is a function of these rows alone: they never change, so that it is computed once under this name."""
        known: dict[str, Any] = self.__dict__.setdefault("_once", {})
        if name not in known:
            known[name] = make()
        return known[name]

    def where(self, mask: np.ndarray) -> Frame:
        """The rows for which `mask` (bool of (rows,)) holds."""
        if mask.shape != (self.rows,):
            raise UsageError(f"a mask of shape {mask.shape} does not fit {self.rows} rows")
        numbering = np.arange(self.rows) if self.numbering is None else self.numbering
        return Frame(
            rows=int(mask.sum()),
            numbers_by_name={name: column[mask] for name, column in self.numbers_by_name.items()},
            words_by_name={name: Words(w.codes[mask], w.values) for name, w in self.words_by_name.items()},
            source=self.source,
            notes=self.notes,
            truth=self.truth,
            numbering=numbering[mask],
            fetch=self.fetch,
        )

    def split(self, name: str) -> Frame:
        """The rows of one split."""
        return self.where(self.is_word("split", name))

    def number_of(self, row: int) -> int:
        """Row number in the source of row `row`: what `rows` of a finding are."""
        return int(row if self.numbering is None else self.numbering[row])

    def excerpt(self, rows: Sequence[int]) -> list[dict[str, Any]]:
        """Whole evidence rows, texts included, by row number in the source. Raises `UsageError` where the source cannot be read again."""
        if self.fetch is None:
            raise UsageError(
                f"the texts of {self.source or 'this evidence'} are not at hand; read it from a file or a run"
            )
        return self.fetch(rows)
