"""Data sets of small functions as rows: HumanEval's shape, MBPP in the same shape, and MBPP as first published.

HumanEval   task_id, prompt (signature and docstring), canonical_solution, entry_point, test (def check(candidate))
MBPP        task_id, text (or prompt), code, test_list (asserts); perhaps test_setup_code, test_imports
"""

from __future__ import annotations

import ast
import gzip
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, cast

from coevo.errors import TaskError, UsageError
from coevo.tasks.testfile import parse_line

MAX_LINE = 4 << 20
"""Bytes. A longer line is malformed; it is skipped without being held in memory."""


@dataclass(frozen=True)
class Row:
    """One problem of a data set, in one shape for all of them."""

    id: str
    entry: str
    prompt: str
    """Source up to the body of the entry: imports, helpers, signature, docstring."""
    solution: str
    """Complete source of the data set's own solution."""
    test: str
    """Source that defines check(candidate)."""


@dataclass(frozen=True)
class Malformed:
    """A line that is no row, and why."""

    where: str
    why: str


def read_rows(path: Path, source: str) -> Iterator[Row | Malformed]:
    """The rows of a JSONL file (.gz too), in order. `source` opens the name of rows whose id is a bare number."""
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as stream:
            for number, line in _lines(cast(IO[bytes], stream)):
                where = f"{path.name}:{number}"
                if line is None:
                    yield Malformed(where, f"longer than {MAX_LINE:,} bytes")
                elif line.strip():
                    try:
                        yield _row(parse_line(line, where), source)
                    except TaskError as e:
                        yield Malformed(where, str(e).removeprefix(where).lstrip(": "))
                    except (ValueError, RecursionError, MemoryError) as e:
                        yield Malformed(where, str(e) or type(e).__name__)
    except (OSError, EOFError) as e:
        raise UsageError(f"cannot read {path}: {getattr(e, 'strerror', None) or e}") from None


def task_name(row: Row) -> str:
    """A task's (and folder's) name made from a row's id: never a path, whatever the id says."""
    return re.sub(r"[^a-z0-9]+", "_", row.id.lower()).strip("_")[:80]


def signature(row: Row) -> tuple[str, str]:
    """The entry's call, such as "add(x, y)", and the docstring of the prompt (perhaps empty)."""
    function = _function(ast.parse(blank(row)), row.entry)
    assert function is not None  # `_row` has made sure
    return f"{row.entry}({ast.unparse(function.args)})", ast.get_docstring(function) or ""


def blank(row: Row) -> str:
    """The prompt with a body that raises NotImplementedError: what a search starts from."""
    return _with_body(row.prompt, row.entry)


def _lines(stream: IO[bytes]) -> Iterator[tuple[int, bytes | None]]:
    """Numbered lines; None stands for one that is too long."""
    number = 0
    while line := stream.readline(MAX_LINE + 1):
        number += 1
        whole = True
        while len(line) > MAX_LINE and not line.endswith(b"\n"):
            whole = False
            line = stream.readline(MAX_LINE + 1)
        yield number, line if whole and len(line) <= MAX_LINE + 1 else None


def _row(record: Mapping[str, Any], source: str) -> Row:
    if "task_id" not in record:
        raise ValueError("task_id is missing")
    number = record["task_id"]
    name = f"{source}_{number}" if isinstance(number, int) else _text(record, "task_id")
    if not re.search(r"[A-Za-z0-9]", name):
        raise ValueError(f"task_id {name!r} has no letter or digit to make a name of")
    row = _published_mbpp(record, name) if "test_list" in record else _humaneval(record, name)
    if _function(_parsed(blank(row), "prompt"), row.entry) is None:
        raise ValueError(f"the prompt does not define {row.entry!r} at its top level")
    _parsed(row.test, "test")
    return row


def _humaneval(record: Mapping[str, Any], name: str) -> Row:
    prompt, entry, test = (_text(record, key) for key in ("prompt", "entry_point", "test"))
    return Row(name, entry, prompt, prompt + _text(record, "canonical_solution"), test)


def _published_mbpp(record: Mapping[str, Any], name: str) -> Row:
    code = _text(record, "code").replace("\r\n", "\n")
    asserts = [*_texts(record, "test_list"), *_texts(record, "challenge_test_list")]
    setup = "\n".join([*_texts(record, "test_imports"), _text(record, "test_setup_code", "")])
    tree = _parsed(code, "code")
    defined = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    called = {n.id for n in ast.walk(_parsed("\n".join(asserts), "test_list")) if isinstance(n, ast.Name)}
    tested = [node for node in defined if node.name in called]
    if not tested:
        raise ValueError("test_list calls no function that the code defines")
    function = tested[-1]
    docstring = (
        _text(record, "text" if "text" in record else "prompt").replace("\\", "\\\\").replace('"""', "'''").strip()
    )
    head = f"def {function.name}({ast.unparse(function.args)}):\n"
    prompt = f'{head}    """\n    {docstring}\n    """\n'
    body = "\n".join("    " + line for text in asserts for line in text.splitlines()) or "    pass"
    test = f"{setup}\n\ndef check(candidate):\n    {function.name} = candidate\n{body}\n"
    return Row(name, function.name, prompt, code, test)


def _text(record: Mapping[str, Any], key: str, default: str | None = None) -> str:
    value = record.get(key, default)
    if value is None:
        raise ValueError(f"{key} is missing")
    if not isinstance(value, str):
        raise ValueError(f"{key} is a {type(value).__name__}, not text")
    if "\0" in value or any("\ud800" <= mark <= "\udfff" for mark in value):
        raise ValueError(f"{key} holds characters that no source file can hold")
    return value


def _texts(record: Mapping[str, Any], key: str) -> list[str]:
    value = record.get(key) or []
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ValueError(f"{key} is not a list of texts")
    return value


def _with_body(prompt: str, entry: str) -> str:
    last = next((line for line in reversed(prompt.splitlines()) if line.strip()), "")
    indent = last[: len(last) - len(last.lstrip())] or "    "
    return f"{prompt.rstrip()}\n{indent}raise NotImplementedError\n"


def _parsed(text: str, part: str) -> ast.Module:
    try:
        return ast.parse(text)
    except SyntaxError as e:
        raise ValueError(f"the {part} is not valid Python: line {e.lineno}: {e.msg}") from None


def _function(tree: ast.Module, name: str) -> ast.FunctionDef | None:
    return next((node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name), None)
