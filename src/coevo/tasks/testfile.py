"""tests.jsonl: one written test per line, values as `coevo.tasks.values` writes them.

    {"split": "public", "args": [[3, 1, 2]], "expected": [1, 2, 3]}       kind function; "kwargs" and "name" may be added
    {"split": "hidden", "stdin": "3 4\\n", "stdout": "7\\n"}                kind stdio; "name" may be added

Blank lines are skipped. A broken line is an error that names file, line and what to write instead.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args, overload

from coevo.errors import TaskError
from coevo.tasks.types import Kind, Split, Test
from coevo.tasks.values import MAX_DIGITS, from_json, to_json

FILE = "tests.jsonl"

_SPLITS: tuple[str, ...] = get_args(Split)
_NEEDED = {Kind.FUNCTION: ("split", "args", "expected"), Kind.STDIO: ("split", "stdin", "stdout")}
_OPTIONAL = {Kind.FUNCTION: ("kwargs", "name"), Kind.STDIO: ("name",)}


def read_tests(path: Path, kind: Kind) -> tuple[Test, ...]:
    """The tests of a tests.jsonl file, in order. A test without a name is called after its line ("line 3")."""
    tests: list[Test] = []
    seen: dict[str, int] = {}
    try:
        with path.open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                if line.strip():
                    test = _test(line, kind, f"{path}:{number}", default_name=f"line {number}")
                    if test.name in seen:
                        raise TaskError(
                            f"{path}:{number}: the name {test.name!r} is already used in line {seen[test.name]}; "
                            "give every test its own"
                        )
                    seen[test.name] = number
                    tests.append(test)
    except OSError as e:
        raise TaskError(f"cannot read {path}: {e.strerror or e}") from None
    return tuple(tests)


@dataclass(frozen=True)
class UnreadTests(Sequence[Test]):
    """The tests of a file, read (and checked) whenever they are asked for: what a set of thousands of tasks holds of each."""

    path: Path
    kind: Kind

    def __iter__(self) -> Iterator[Test]:
        return iter(read_tests(self.path, self.kind))

    def __len__(self) -> int:
        return len(read_tests(self.path, self.kind))

    @overload
    def __getitem__(self, index: int) -> Test: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Test]: ...
    def __getitem__(self, index: int | slice) -> Test | Sequence[Test]:
        return read_tests(self.path, self.kind)[index]


def write_tests(path: Path, tests: Iterable[Test], kind: Kind) -> None:
    """Write tests so that `read_tests` gives them back. Raises ValueError for values that are not plain data."""
    path.write_text("".join(line_of(test, kind) for test in tests), encoding="utf-8")


def line_of(test: Test, kind: Kind) -> str:
    """One line of tests.jsonl, with its line end."""
    record: dict[str, Any] = {"split": test.split}
    if test.name:
        record["name"] = test.name
    if kind is Kind.FUNCTION:
        record["args"] = [to_json(value) for value in test.args]
        if test.kwargs:
            record["kwargs"] = {name: to_json(value) for name, value in test.kwargs.items()}
        record["expected"] = to_json(test.expected)
    else:
        record |= {"stdin": test.stdin, "stdout": test.expected}
    return json.dumps(record, allow_nan=False) + "\n"


def _test(line: bytes, kind: Kind, where: str, default_name: str) -> Test:
    record = parse_line(line, where)
    for key in _NEEDED[kind]:
        if key not in record:
            raise TaskError(f"{where}: {key!r} is missing; a test of kind {kind} has {', '.join(_NEEDED[kind])}")
    for key in record:
        if key not in _NEEDED[kind] + _OPTIONAL[kind]:
            known = ", ".join(_NEEDED[kind] + _OPTIONAL[kind])
            raise TaskError(f"{where}: unknown key {key!r}; a test of kind {kind} has {known}")
    split = record["split"]
    if split not in _SPLITS:
        raise TaskError(f"{where}: split is {split!r}; write one of {', '.join(_SPLITS)}")
    name = record.get("name", default_name)
    if not isinstance(name, str) or not name:
        raise TaskError(f"{where}: name is {name!r}; write some text")
    if kind is Kind.STDIO:
        for key in ("stdin", "stdout"):
            if not isinstance(record[key], str):
                raise TaskError(f"{where}: {key} is a {type(record[key]).__name__}; write a string")
        return Test(split, stdin=record["stdin"], expected=record["stdout"], name=name)
    args, kwargs, expected = (_value(record, key, where) for key in ("args", "kwargs", "expected"))
    if not isinstance(args, list | tuple):
        raise TaskError(f"{where}: args is a {type(args).__name__}; write the list of arguments, [x] for a single x")
    if kwargs is not None and not isinstance(kwargs, dict):
        raise TaskError(f"{where}: kwargs is a {type(kwargs).__name__}; write an object of names and values")
    return Test(split, args=tuple(args), kwargs=kwargs or {}, expected=expected, name=name)


def _value(record: dict[str, Any], key: str, where: str) -> Any:
    try:
        return from_json(record.get(key))
    except ValueError as e:
        raise TaskError(f"{where}: {key}: {e}") from None


def parse_line(line: bytes, where: str) -> dict[str, Any]:
    """One line of a JSONL file as an object, strictly: no NaN, no key twice. Raises a `TaskError` that starts with `where`."""
    try:
        record = json.loads(line.strip(), parse_constant=_constant, parse_int=_int, object_pairs_hook=_pairs)
    except UnicodeDecodeError:
        raise TaskError(f"{where} is not UTF-8 text") from None
    except json.JSONDecodeError as e:
        raise TaskError(f"{where}: not valid JSON (column {e.colno}: {e.msg})") from None
    except RecursionError:
        raise TaskError(f"{where}: nested too deeply") from None
    except ValueError as e:
        raise TaskError(f"{where}: {e}") from None
    if not isinstance(record, dict):
        raise TaskError(f"{where}: each line is one object, {{...}}, not a {type(record).__name__}")
    return record


def _constant(name: str) -> Any:
    tag = {"NaN": "nan", "Infinity": "inf", "-Infinity": "-inf"}[name]
    raise ValueError(f'{name} is not JSON; write {{"$float": "{tag}"}}')


def _int(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise ValueError(f'an integer of {len(digits):,} digits; write {{"$int": "0x..."}}, in hexadecimal')
    return int(digits)


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice!r} stands twice in one object")
    return result
