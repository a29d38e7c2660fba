"""From batches of records to columns. A `Builder` takes batches and gives a `Piece`; pieces, wherever they were read, are joined to a frame in
order. What a column is follows from the schema; unknown columns are numbers if all their values are, words otherwise.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from coevo.evidence.features import prompt_code, text_columns
from coevo.evidence.layouts import Layout, Numbers, plain_text
from coevo.evidence.sampling import picked
from coevo.evidence.types import NUMBERS, TEXTS, WORDS, Words

MOST_LETTERS = 200
"""A longer word is cut, its CRC-32 at the end; an unknown column with a longer one is text, and left out."""
MOST_VALUES = 10_000
"""Distinct values of an unknown column from which on it is left out, if more than half of its rows have one of their own."""
TOLD = 5
"""Damaged lines that are named."""

Values = Sequence[Any] | np.ndarray | Words
"""What a source gives of a column: plain values, float64 (NaN: missing), or words."""

_NUMBERS, _WORDS = frozenset(NUMBERS), frozenset(WORDS)
_PLAIN = {float, int, bool, type(None)}


class Piece(NamedTuple):
    """Columns of a part of a source."""

    rows: int
    numbers: dict[str, np.ndarray]
    words: dict[str, Words]
    place: np.ndarray
    """int64 of (rows, 2): where a row lies in its span of the source, and which it is of the rows there."""
    lines: int = 0
    """Records that were looked at."""
    damaged: tuple[tuple[int, str], ...] = ()
    """(record within the piece from 1, why) of the first that are no rows."""
    broken: int = 0
    """How many there are."""
    wrong: Mapping[str, int] = {}
    """Column -> values that are not of its type, or not finite."""
    left_out: frozenset[str] = frozenset()
    """Unknown columns that hold texts or structures."""
    grouped: int = 0
    """Rows whose task was taken from the prompt."""


class Builder:
    """Collects batches. `layout` names foreign columns; `share` of the groups is looked at in detail (`coevo.evidence.sampling`)."""

    def __init__(self, layout: Layout, *, texts: bool = True, share: float = 1.0) -> None:
        self.layout, self.texts, self.share = layout, texts, share
        self.rows = self.grouped = 0
        self.numbers: dict[str, list[tuple[int, np.ndarray]]] = {}
        self.words: dict[str, list[tuple[int, np.ndarray]]] = {}
        self.known: dict[str, dict[str, int]] = {}
        self.wrong: dict[str, int] = {}
        self.left_out: set[str] = set()
        self.places: list[np.ndarray] = []

    def add_records(self, records: Sequence[Mapping[str, Any]], place: np.ndarray) -> None:
        """Rows as mappings in the layout's words (or ours, where the layout unfolded them)."""
        shapes = dict.fromkeys(map(tuple, records))
        if len(shapes) == 1:
            columns: dict[str, Values] = dict(zip(*shapes, zip(*map(dict.values, records), strict=True), strict=True))  # type: ignore[arg-type]
        else:
            names = dict.fromkeys(chain.from_iterable(shapes))
            columns = {name: [record.get(name) for record in records] for name in names}
        self.add(columns, len(records), place)

    def add(self, columns: Mapping[str, Values], rows: int, place: np.ndarray) -> None:
        """A batch of columns in the layout's words; `place`, int64 of (rows, 2), says where they lie."""
        texts: dict[str, list[str | None]] = {}
        given: dict[str, Values] = {}
        for name, values in columns.items():
            ours = self.layout.our_name(name)
            if ours in TEXTS:
                texts[ours] = (
                    [plain_text(value) for value in values] if not isinstance(values, Words) else _listed_words(values)
                )
            elif self.layout.names_part(name) and _numeric(values):
                given[f"parts.{name}"] = values
            elif ours not in given or ours == name:
                given[ours] = values
        self._name_by_prompt(given, texts.get("prompt"), rows)
        if self.texts and "response" in texts:
            self._read_texts(given, texts, rows)
        for name, values in given.items():
            self._put(name, values)
        self.places.append(place)
        self.rows += rows

    def _name_by_prompt(self, given: dict[str, Values], prompts: list[str | None] | None, rows: int) -> None:
        """Rows without task and group are of the group of their prompt."""
        if prompts is None or any(_says(given[name]) for name in ("task", "group") if name in given):
            return
        names: dict[str, str] = {}
        given["task"] = [None if p is None else names.get(p) or names.setdefault(p, prompt_code(p)) for p in prompts]
        self.grouped += rows

    def _read_texts(self, given: dict[str, Values], texts: dict[str, list[str | None]], rows: int) -> None:
        keys = [_listed(given[name]) for name in ("branch", "step", "split") if name in given]
        keys.append(_listed(given["group"] if "group" in given else given["task"] if "task" in given else range(rows)))
        prompts = texts.get("prompt") or [None] * rows
        steps = np.array([number(value) for value in _listed(given["step"])]) if "step" in given else None
        found = text_columns(prompts, texts["response"], picked(keys, self.share, rows), steps)
        for name, column in found.items():
            given.setdefault(name, column)

    def _put(self, name: str, values: Values) -> None:
        if isinstance(values, np.ndarray):
            if name in _WORDS:
                values = [None if math.isnan(v) else spelled(v) for v in values.tolist()]
            else:
                self._put_numbers(name, np.where(np.isfinite(values), values, np.nan))
                return
        if isinstance(values, Words):
            if name in _NUMBERS or name.startswith("parts."):
                self._wrong(name, int((values.codes >= 0).sum()))
            else:
                self._put_known_words(name, values)
            return
        kinds = set(map(type, values))
        if name == "parts" or any(issubclass(kind, Mapping) for kind in kinds):
            self._put_mappings(name, values)
        elif name in _NUMBERS or name.startswith(("parts.", "text.")) or self._is_number(name, kinds):
            self._put_numbers(name, self._as_numbers(name, values, kinds))
        else:
            self._put_words(name, values, kinds)

    def _is_number(self, name: str, kinds: set[type]) -> bool:
        """Whether an unknown column is one of numbers: all values of it so far were."""
        return name not in _WORDS and name not in self.words and _numeric_kinds(kinds)

    def _put_mappings(self, name: str, values: Sequence[Any]) -> None:
        """`parts` becomes `parts.NAME`; other structures are left out."""
        if name != "parts":
            self.left_out.add(name)
            return
        maps: list[Mapping[str, Any]] = [value if isinstance(value, dict) else {} for value in values]
        self._wrong(name, sum(1 for value in values if value is not None and not isinstance(value, dict)))
        for part in dict.fromkeys(chain.from_iterable(maps)):
            column = [value.get(part) for value in maps]
            self._put_numbers(f"parts.{part}", self._as_numbers(f"parts.{part}", column, set(map(type, column))))

    def _as_numbers(self, name: str, values: Sequence[Any], kinds: set[type]) -> np.ndarray:
        if kinds <= _PLAIN:
            try:
                column = np.array(values, dtype=np.float64)
            except OverflowError:
                column = None
            if column is not None and (kinds <= {int, bool} or _missing_alone(column, values)):
                return column
        numbers = [number(value) for value in values]
        self._wrong(name, sum(1 for v, n in zip(values, numbers, strict=True) if n != n and v is not None))
        return np.array(numbers, dtype=np.float64)

    def _put_numbers(self, name: str, column: np.ndarray) -> None:
        self.numbers.setdefault(name, []).append((self.rows, column))

    def _put_words(self, name: str, values: Sequence[Any], kinds: set[type]) -> None:
        if name in self.left_out:
            return
        if any(issubclass(kind, list | tuple | np.ndarray) for kind in kinds):
            if name in _WORDS:
                self._wrong(name, len(values))
            else:
                self.left_out.add(name)
            return
        known = self.known.setdefault(name, {})
        codes: dict[Any, int] = {}
        for value in dict.fromkeys(values):
            if value is None or (isinstance(value, float) and not math.isfinite(value)):
                codes[value] = -1
            elif (word := self._spelling(name, value)) is not None:
                codes[value] = known.setdefault(word, len(known))
            else:
                return
        column = np.fromiter(map(codes.__getitem__, values), dtype=np.int64, count=len(values))
        self.words.setdefault(name, []).append((self.rows, column))

    def _put_known_words(self, name: str, words: Words) -> None:
        if name in self.left_out:
            return
        known = self.known.setdefault(name, {})
        remap = np.full(len(words.values) + 1, -1, dtype=np.int64)
        for i, value in enumerate(words.values):
            word = self._spelling(name, value)
            if word is None:
                return
            remap[i] = known.setdefault(word, len(known))
        self.words.setdefault(name, []).append((self.rows, remap[words.codes]))

    def _spelling(self, name: str, value: Any) -> str | None:
        """A value as a word; None, and the column is left out, where it is text."""
        word = value if isinstance(value, str) else spelled(value)
        if len(word) <= MOST_LETTERS:
            return word
        if name in _WORDS:
            return f"{word[: MOST_LETTERS - 9]}-{zlib.crc32(word.encode('utf-8', 'surrogatepass')):08x}"
        self.left_out.add(name)
        self.words.pop(name, None)
        self.known.pop(name, None)
        return None

    def _wrong(self, name: str, count: int) -> None:
        if count:
            self.wrong[name] = self.wrong.get(name, 0) + count

    def done(self, *, lines: int = 0, damaged: Sequence[tuple[int, str]] = (), broken: int = 0) -> Piece:
        """All that was added, as one piece."""
        numbers = {name: _whole(parts, self.rows, np.nan) for name, parts in self.numbers.items()}
        words = {
            name: Words(_whole(parts, self.rows, -1), tuple(self.known[name]))
            for name, parts in self.words.items()
            if name not in self.left_out
        }
        place = np.concatenate(self.places) if self.places else np.empty((0, 2), dtype=np.int64)
        return Piece(
            rows=self.rows,
            numbers=numbers,
            words=words,
            place=place,
            lines=lines,
            damaged=tuple(damaged),
            broken=broken,
            wrong=dict(self.wrong),
            left_out=frozenset(self.left_out),
            grouped=self.grouped,
        )


def spelled(value: Any) -> str:
    """A number (or whatever else stands where a word should) as a word: equal numbers alike, be they truth values, integers or floats."""
    if isinstance(value, float | np.floating):
        return f"{value + 0.0:.15g}"
    return str(int(value)) if isinstance(value, bool | np.bool_) else str(value)


def number(value: Any) -> float:
    """A value of a number column; NaN for what is none, or not finite."""
    if isinstance(value, bool | int | float | np.number | np.bool_):
        try:
            found = float(value)
        except (OverflowError, TypeError):
            return math.nan
        return found if math.isfinite(found) else math.nan
    return math.nan


def _missing_alone(column: np.ndarray, values: Sequence[Any]) -> bool:
    """Whether what is not finite in a column are missing values, which are no mistakes."""
    odd = len(column) - int(np.isfinite(column).sum())
    return not odd or (not np.isinf(column).any() and odd == values.count(None))


def _whole(parts: list[tuple[int, np.ndarray]], rows: int, missing: float) -> np.ndarray:
    if len(parts) == 1 and len(parts[0][1]) == rows:
        return parts[0][1]
    out = np.full(rows, missing, dtype=parts[0][1].dtype)
    for start, column in parts:
        out[start : start + len(column)] = column
    return out


def _numeric(values: Values) -> bool:
    if isinstance(values, Words):
        return False
    return isinstance(values, np.ndarray) or _numeric_kinds(set(map(type, values)))


def _numeric_kinds(kinds: set[type]) -> bool:
    return all(kind is type(None) or issubclass(kind, int | float | np.number | np.bool_) for kind in kinds)


def _says(values: Values) -> bool:
    """Whether a column has any value at all."""
    if isinstance(values, Words):
        return bool((values.codes >= 0).any())
    return bool(np.isfinite(values).any()) if isinstance(values, np.ndarray) else any(v is not None for v in values)


def _listed_words(words: Words) -> list[str | None]:
    return [None if code < 0 else words.values[code] for code in words.codes]


def _listed(values: Values | range) -> Sequence[Any]:
    """Values as they are hashed to pick groups: the same for the same, whatever the source."""
    if isinstance(values, Words):
        return _listed_words(values)
    listed = values.tolist() if isinstance(values, np.ndarray) else values
    return [float(v) if isinstance(v, int) and abs(v) < 1 << 53 else v for v in listed]


def joined(pieces: Sequence[Piece]) -> tuple[Numbers, dict[str, Words], list[str]]:
    """Columns of all pieces in order, and notes on what was wrong with them. Pieces are used up: their memory is given back on the way."""
    starts = np.cumsum([0, *(piece.rows for piece in pieces)]).tolist()
    rows = starts[-1]
    numbers: Numbers = {}
    words: dict[str, Words] = {}
    left_out = {name for piece in pieces for name in piece.left_out}
    worded = [name for name in dict.fromkeys(n for p in pieces for n in p.words) if name not in left_out]
    for name in worded:
        codes, known = np.full(rows, -1, dtype=np.int64), {}
        for start, piece in zip(starts, pieces, strict=False):
            part = piece.words.pop(name, None)
            if part is None and name in piece.numbers:
                part = _as_words(piece.numbers.pop(name))
            if part is not None:
                remap = np.array([known.setdefault(v, len(known)) for v in part.values] + [-1], dtype=np.int64)
                codes[start : start + piece.rows] = remap[part.codes]
        if name not in _WORDS and len(known) > MOST_VALUES and 2 * len(known) > int((codes >= 0).sum()):
            left_out.add(name)
        else:
            words[name] = Words(codes, tuple(known))
    for name in dict.fromkeys(n for p in pieces for n in p.numbers):
        if name not in worded and name not in left_out:
            column = numbers[name] = np.full(rows, np.nan)
            for start, piece in zip(starts, pieces, strict=False):
                if (part := piece.numbers.pop(name, None)) is not None:
                    column[start : start + piece.rows] = part
    return numbers, words, _notes(pieces, left_out)


def _as_words(column: np.ndarray) -> Words:
    known: dict[str, int] = {}
    codes = [-1 if math.isnan(v) else known.setdefault(spelled(v), len(known)) for v in column.tolist()]
    return Words(np.array(codes, dtype=np.int64), tuple(known))


def _notes(pieces: Iterable[Piece], left_out: set[str]) -> list[str]:
    wrong: dict[str, int] = {}
    grouped = 0
    for piece in pieces:
        grouped += piece.grouped
        for name, count in piece.wrong.items():
            wrong[name] = wrong.get(name, 0) + count
    notes = [f"{name}: {count:,} values are no finite numbers" for name, count in sorted(wrong.items())]
    if grouped:
        notes.append("tasks are not named: rows of one step with equal prompts are taken as a group")
    if left_out:
        notes.append(f"left out (texts, structures, or a value of its own in each row): {', '.join(sorted(left_out))}")
    return notes
