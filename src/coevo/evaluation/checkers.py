"""Is an answer right? Comparison of plain data, outside the sandbox.

What arrives here was rebuilt by `coevo.sandbox.codec`, so it is made of exact built-in types (and numpy arrays): no
object of a candidate's own class, no `__eq__` of its making, ever takes part in a comparison.

What counts as equal, under every checker:

* A truth value equals only a truth value: `True` is not 1. Python's `==` says otherwise, but "is it prime" and "how many"
  are different questions.
* Numbers are equal by value: 3 is 3.0, -0.0 is 0.0, and integers of any length are compared exactly.
* NaN equals NaN: if the right answer is "not a number", saying so is right. NaN equals nothing else.
* A list equals a tuple, and a numpy array or scalar, of the same items: JSON cannot write the others.
* Text is not bytes; a set is not a list; the order of a dict does not count.

Standard output is text, and there trailing space of lines and trailing blank lines never count.
"""

from __future__ import annotations

import csv
import math
import re
import struct
import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from coevo.evaluation.show import clip, show
from coevo.tasks.types import Checker

MAX_MATCHED = 100
"""Unordered items left after exact matching, up to which a best matching within tolerance is searched (it takes cubic time);
more than these are compared in the order of their text."""


@dataclass(frozen=True)
class Verdict:
    """Whether an answer is accepted; if not, `detail` is the first difference: where, what came, what was expected."""

    ok: bool
    detail: str = ""


RIGHT = Verdict(True)

CustomCheck = Callable[[Any, Any, Any], Any]


def check_value(checker: Checker, got: Any, expected: Any) -> Verdict:
    """Compare what a function returned with the expected value. `checker.name` is anything but custom."""
    if checker.name == "tokens":
        return check_text(checker, _as_text(got), _as_text(expected))
    same = _exact if checker.name == "exact" else Close(checker.rel, checker.abs)
    if checker.name == "unordered":
        return _unordered(same, got, expected)
    return _verdict(_compare(same, got, expected, ""))


def check_text(checker: Checker, got: str, expected: str) -> Verdict:
    """Compare standard output with the expected text. `checker.name` is anything but custom."""
    if checker.name in ("exact", "unordered"):
        got_lines, expected_lines = _lines(got), _lines(expected)
        if checker.name == "unordered":
            got_lines, expected_lines = sorted(got_lines), sorted(expected_lines)
        return _sequence(got_lines, expected_lines, "line", lambda a, b: a == b)
    same: Callable[[str, str], bool] = lambda a, b: a == b  # noqa: E731
    if checker.name == "floats":
        close = Close(checker.rel, checker.abs)
        same = lambda a, b: _token_close(close, a, b)  # noqa: E731
    return _sequence(got.split(), expected.split(), "token", same)


def check_custom(check: CustomCheck, got: Any, expected: Any, arguments: Any) -> Verdict:
    """Ask a task's own checker. Errors about the answer's form make it wrong (`data_error`); others pass through."""
    try:
        result = check(got, expected, arguments)
        if isinstance(result, dict):
            return Verdict(bool(result.get("ok", False)), clip(str(result.get("feedback", "")), 400))
        return RIGHT if result else Verdict(False, f"got {show(got)}, which the task's checker does not accept")
    except DATA_ERRORS as e:
        return Verdict(False, data_error(e))


DATA_ERRORS = (
    *(ValueError, TypeError, LookupError, AttributeError, ArithmeticError, AssertionError),
    *(StopIteration, RecursionError, MemoryError, EOFError, BufferError),
    *(struct.error, re.error, zlib.error, csv.Error),
)
"""What a checker or scorer raises when handed data of a form or size it did not foresee: the candidate's fault, not the judge's.
Anything else (a NameError, a missing module or file) is a bug of the judge, and the evaluation is unmeasured."""


def data_error(error: BaseException) -> str:
    """What a candidate is told when a checker or scorer stumbled over its answer."""
    if isinstance(error, ValueError | AssertionError) and str(error):
        return clip(str(error), 400)
    return clip(f"the answer does not have the expected form ({type(error).__name__}: {error})", 400)


# --- numbers and other leaves -------------------------------------------------------------------------------------------

_NUMBERS = (int, float, complex)


def _exact(got: Any, expected: Any) -> bool:
    """Equality of two leaves that are not containers."""
    if isinstance(got, bool) or isinstance(expected, bool):
        return got is expected
    if isinstance(got, _NUMBERS) and isinstance(expected, _NUMBERS):
        return got == expected or (got != got and expected != expected)
    return type(got) is type(expected) and got == expected


class Close:
    """Equality of leaves, numbers within max(absolute, relative * |expected|) unless both are integers."""

    def __init__(self, rel: float, abs_: float) -> None:
        self.rel, self.abs = rel, abs_

    def __call__(self, got: Any, expected: Any) -> bool:
        if _exact(got, expected):
            return True
        if isinstance(got, bool) or isinstance(expected, bool):
            return False
        if not (isinstance(got, _NUMBERS) and isinstance(expected, _NUMBERS)):
            return False
        if isinstance(got, int) and isinstance(expected, int):
            return False
        try:
            size, gap = abs(expected), abs(got - expected)
        except OverflowError:  # an integer too long to be a float
            return False
        return math.isfinite(size) and gap <= max(self.abs, self.rel * size)


Same = Callable[[Any, Any], bool]

# --- nested data --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Difference:
    path: str
    got: Any
    expected: Any
    note: str = ""


def _verdict(difference: _Difference | None) -> Verdict:
    if difference is None:
        return RIGHT
    where = f"at {difference.path}: " if difference.path else ""
    note = f" ({difference.note})" if difference.note else ""
    return Verdict(False, f"{where}got {show(difference.got)}, expected {show(difference.expected)}{note}")


def _plain(value: Any) -> Any:
    """Numpy arrays and scalars as lists and numbers; other values as they are."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
        if isinstance(value, np.generic):  # a long double has no counterpart in Python
            return complex(value) if isinstance(value, np.complexfloating) else float(value)
    return value


def _compare(same: Same, got: Any, expected: Any, path: str) -> _Difference | None:
    """The first difference of two nested values, or None. Depth is bounded by the codec."""
    got, expected = _plain(got), _plain(expected)
    if isinstance(expected, list | tuple):
        if not isinstance(got, list | tuple):
            return _Difference(path, got, expected, f"a {type(got).__name__} where a sequence is expected")
        return _compare_items(same, got, expected, path)
    if isinstance(expected, dict):
        return _compare_dicts(same, got, expected, path)
    if isinstance(expected, set | frozenset):
        if not isinstance(got, set | frozenset):
            return _Difference(path, got, expected, f"a {type(got).__name__} where a set is expected")
        return None if _match(same, list(got), list(expected)) is None else _Difference(path, got, expected)
    return None if same(got, expected) else _Difference(path, got, expected, _type_note(got, expected))


def _compare_items(same: Same, got: Sequence[Any], expected: Sequence[Any], path: str) -> _Difference | None:
    for i, (g, e) in enumerate(zip(got, expected, strict=False)):
        if type(g) is type(e) and type(g) in (int, str, float) and g == e:  # the common case, fast
            continue
        difference = _compare(same, g, e, f"{path}[{i}]")
        if difference is not None:
            return difference
    if len(got) != len(expected):
        return _Difference(path, got, expected, f"{len(got)} items instead of {len(expected)}")
    return None


def _compare_dicts(same: Same, got: Any, expected: dict[Any, Any], path: str) -> _Difference | None:
    if not isinstance(got, dict):
        return _Difference(path, got, expected, f"a {type(got).__name__} where a dict is expected")
    by_key = {_key(k): v for k, v in got.items()}
    for key, value in expected.items():
        if _key(key) not in by_key:
            return _Difference(path, got, expected, f"key {show(key, 60)} is missing")
        difference = _compare(same, by_key[_key(key)], value, f"{path}[{show(key, 40)}]")
        if difference is not None:
            return difference
    if len(by_key) != len(expected):
        wanted = {_key(k) for k in expected}
        extra = next(k for k in got if _key(k) not in wanted)
        return _Difference(path, got, expected, f"key {show(extra, 60)} should not be there")
    return None


def _type_note(got: Any, expected: Any) -> str:
    if type(got) is type(expected) or (isinstance(got, _NUMBERS) and isinstance(expected, _NUMBERS)):
        if isinstance(got, bool) != isinstance(expected, bool):
            return "a truth value and a number are different answers"
        return ""
    return f"{type(got).__name__} instead of {type(expected).__name__}"


# --- unordered ----------------------------------------------------------------------------------------------------------


def _unordered(same: Same, got: Any, expected: Any) -> Verdict:
    """Equal multisets of top-level items; what is inside an item keeps its order."""
    got, expected = _plain(got), _plain(expected)
    sequences = list | tuple | set | frozenset
    if not isinstance(expected, sequences):
        return _verdict(_compare(same, got, expected, ""))
    if not isinstance(got, sequences):
        return _verdict(_Difference("", got, expected, f"a {type(got).__name__} where a collection is expected"))
    if len(got) != len(expected):
        return _verdict(_Difference("", got, expected, f"{len(got)} items instead of {len(expected)}"))
    problem = _match(same, list(got), list(expected))
    return RIGHT if problem is None else Verdict(False, f"{problem} (order does not count)")


def _match(same: Same, got: list[Any], expected: list[Any]) -> str | None:
    """None if the items can be paired off, else what is missing. Exact pairs go first; the rest within tolerance."""
    surplus = Counter(map(_key, got))
    surplus.subtract(Counter(map(_key, expected)))
    left_got = _take(got, {k: n for k, n in surplus.items() if n > 0})
    left_expected = _take(expected, {k: -n for k, n in surplus.items() if n < 0})
    if len(left_got) != len(left_expected):
        return f"{len(got)} items instead of {len(expected)}"
    if not left_expected:
        return None
    unpaired = _pair(same, left_got, left_expected)
    more = len(left_got) < len(got) and (_real(got, expected) or len(got) <= MAX_MATCHED)
    if unpaired is not None and more and _pair(same, got, expected) is None:
        return None  # an exact pair had taken the only partner of another item
    return None if unpaired is None else f"{show(unpaired)} is missing; left over: {show(left_got, 80)}"


def _take(items: list[Any], counts: dict[Any, int]) -> list[Any]:
    taken = []
    for item in items:
        key = _key(item)
        if counts.get(key, 0) > 0:
            counts[key] -= 1
            taken.append(item)
    return taken


def _pair(same: Same, got: list[Any], expected: list[Any]) -> Any | None:
    """The first expected item without a partner, or None. Numbers pair in sorted order, which is optimal on a line."""
    real = _real(got, expected)
    if real or len(expected) > MAX_MATCHED:
        order = (lambda x: x) if real else (lambda x: show(_plain(x), 400))
        pairs = zip(sorted(got, key=order), sorted(expected, key=order), strict=True)
        return next((e for g, e in pairs if _compare(same, g, e, "") is not None), None)
    fits = [[j for j, g in enumerate(got) if _compare(same, g, e, "") is None] for e in expected]
    owner: dict[int, int] = {}

    def assign(i: int, seen: set[int]) -> bool:
        for j in fits[i]:
            if j not in seen:
                seen.add(j)
                if j not in owner or assign(owner[j], seen):
                    owner[j] = i
                    return True
        return False

    return next((expected[i] for i in range(len(expected)) if not assign(i, set())), None)


def _real(got: list[Any], expected: list[Any]) -> bool:
    """Whether all items are numbers with an order."""
    return all(isinstance(x, int | float) and not isinstance(x, bool) and x == x for x in [*got, *expected])


def _key(value: Any) -> Any:
    """A hashable stand-in: equal keys exactly for values that `_exact` and the rules above call equal."""
    value = _plain(value)
    if isinstance(value, bool) or value is None:
        return (type(value).__name__, value)
    if isinstance(value, _NUMBERS):
        return ("number", value) if value == value else ("nan",)
    if isinstance(value, list | tuple):
        return ("sequence", *map(_key, value))
    if isinstance(value, dict):
        return ("dict", frozenset((_key(k), _key(v)) for k, v in value.items()))
    if isinstance(value, set | frozenset):
        return ("set", frozenset(map(_key, value)))
    return (type(value).__name__, value)


# --- text ---------------------------------------------------------------------------------------------------------------

_INTEGER = re.compile(r"[+-]?[0-9]+\Z")
_NUMBER = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?\Z")
_INFINITE_OR_NAN = re.compile(r"[+-]?(inf|infinity|nan)\Z", re.IGNORECASE | re.ASCII)
MAX_DECIMAL_BITS = 13_000
"""Longer integers become text as hexadecimal: Python refuses decimal text of more than 4,300 digits."""


def _as_text(value: Any) -> str:
    """A value as text, whole: two values that differ have texts that do."""
    if isinstance(value, str):
        return value
    return _whole(value)


def _whole(value: Any) -> str:
    value = _plain(value)
    if isinstance(value, int) and value.bit_length() > MAX_DECIMAL_BITS:
        return hex(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_whole, value))}]"
    if isinstance(value, tuple):
        return f"({', '.join(map(_whole, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{_whole(k)}: {_whole(v)}' for k, v in value.items())}}}"
    if isinstance(value, set | frozenset):
        return f"{type(value).__name__}({', '.join(sorted(map(_whole, value)))})"
    return repr(value)


def _lines(text: str) -> list[str]:
    lines = [line.rstrip() for line in text.replace("\r\n", "\n").split("\n")]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def _sequence(got: list[str], expected: list[str], unit: str, same: Callable[[str, str], bool]) -> Verdict:
    for i, (g, e) in enumerate(zip(got, expected, strict=False), 1):
        if not same(g, e):
            return Verdict(False, f"{unit} {i}: got {show(g)}, expected {show(e)}")
    if len(got) < len(expected):
        first = show(expected[len(got)])
        return Verdict(False, f"{_count(got, unit)} instead of {len(expected)}: the output ends before {first}")
    if len(got) > len(expected):
        first = show(got[len(expected)])
        return Verdict(False, f"{_count(got, unit)} instead of {len(expected)}: the first one too many is {first}")
    return RIGHT


def _count(items: list[str], unit: str) -> str:
    return f"{len(items)} {unit}{'' if len(items) == 1 else 's'}"


def _token_close(close: Close, got: str, expected: str) -> bool:
    """Integers as text (any length), other numbers within tolerance, anything else exactly.

    Only what is written as infinite is infinite: a number that is too large for a float equals no other text.
    """
    if got == expected:
        return True
    if _INTEGER.match(got) and _INTEGER.match(expected):
        return _canonical_integer(got) == _canonical_integer(expected)
    if _INFINITE_OR_NAN.match(got) and _INFINITE_OR_NAN.match(expected):
        return close(float(got), float(expected))
    if not (_NUMBER.match(got) and _NUMBER.match(expected)):
        return False
    a, b = float(got), float(expected)
    return math.isfinite(a) and math.isfinite(b) and close(a, b)


def _canonical_integer(token: str) -> str:
    digits = token.lstrip("+-").lstrip("0") or "0"
    return f"-{digits}" if token.startswith("-") and digits != "0" else digits
