"""What edits and operators need to know about Python text: does it compile, and where do its strings lie.

Nothing here executes anything. Every function is total: it takes any text.
"""

from __future__ import annotations

import ast
import contextlib
import re
import warnings
from collections.abc import Iterator
from functools import lru_cache

_FAULTS = (SyntaxError, ValueError, OverflowError, RecursionError, MemoryError)
"""All that `compile` is known to raise for a text: bad syntax, NUL bytes, deep nesting, huge literals."""

_QUOTES = ("'''", '"""')
_LEXEME = re.compile(r"#[^\n]*|'''|\"\"\"|'(?:(?s:\\.)|[^'\\\n])*'?|\"(?:(?s:\\.)|[^\"\\\n])*\"?")


MEMO_CHARS = 20_000
"""Longest text whose tree is remembered: one of a million characters takes hundreds of megabytes."""


def parse(source: str) -> ast.Module | None:
    """The syntax tree, or None when the text is not Python. The tree is shared: look at it, do not change it."""
    return _remembered(source) if len(source) <= MEMO_CHARS else _parsed(source)


@lru_cache(maxsize=8)
def _remembered(source: str) -> ast.Module | None:
    """A proposal asks for the trees of its parent and its child several times."""
    return _parsed(source)


def _parsed(source: str) -> ast.Module | None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return ast.parse(source)
        except _FAULTS:
            return None


_PARTS = {
    kind: tuple(field for field in kind._fields if field not in ("ctx", "op", "ops"))
    for kind in vars(ast).values()
    if isinstance(kind, type) and issubclass(kind, ast.AST)
}


def parts(node: ast.AST) -> list[ast.AST]:
    """The nodes right below one, in order, without the operators and contexts that `ast.iter_child_nodes` gives, too."""
    found: list[ast.AST] = []
    for field in _PARTS[type(node)]:
        value = getattr(node, field, None)
        if type(value) is list:
            found += [item for item in value if isinstance(item, ast.AST)]
        elif isinstance(value, ast.AST):
            found.append(value)
    return found


def fault(source: str, name: str = "program.py") -> str | None:
    """None when the text compiles, else one line that names the place and the cause.

    Compiles rather than parses, so that `return` outside a function is found, too. What compiles from its tree is not read
    a second time.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if (tree := parse(source)) is not None:
            with contextlib.suppress(*_FAULTS):
                compile(tree, name, "exec", dont_inherit=True)
                return None
        try:
            compile(source, name, "exec", dont_inherit=True)
        except SyntaxError as e:
            text = (e.text or "").strip()[:120]
            quoted = f" in `{text}`" if text else ""
            return f"line {e.lineno or 1} of {name}: {e.msg}{quoted}"
        except (RecursionError, MemoryError):
            return f"{name} is nested too deeply for Python's parser"
        except (ValueError, OverflowError) as e:
            return f"{name}: {e}"
    return None


def bad_text(text: str) -> str | None:
    """None for clean text; else what is in it that no source file may hold, and where."""
    nul = text.find("\0")
    if nul >= 0:
        return f"a NUL byte at line {text.count(chr(10), 0, nul) + 1}"
    try:
        text.encode()
    except UnicodeEncodeError as e:
        return f"a lone surrogate (U+{ord(text[e.start]):04X}) at line {text.count(chr(10), 0, e.start) + 1}"
    return None


def triple_quoted(text: str) -> Iterator[tuple[int, int]]:
    """Spans of the triple-quoted strings of a text, in order; an unclosed one ends at `len(text)`."""
    at = 0
    while match := _LEXEME.search(text, at):
        quote = match.group()
        at = match.end()
        if quote in _QUOTES:
            at = _closing(text, quote, at)
            yield match.start(), at


def string_end(text: str, start: int, stop: int) -> int:
    """Read code from `start` to `stop`: the end of the triple-quoted string that `stop` lies in, else at most `stop`."""
    at = start
    while at < stop and (match := _LEXEME.search(text, at, stop)):
        at = match.end()
        if match.group() in _QUOTES:
            at = _closing(text, match.group(), at)
    return at


def _closing(text: str, quote: str, at: int) -> int:
    while (found := text.find(quote, at)) >= 0:
        backslashes = 0
        while found - backslashes > at and text[found - backslashes - 1] == "\\":
            backslashes += 1
        if backslashes % 2 == 0:
            return found + 3
        at = found + 1
    return len(text)


def lines_in_strings(text: str) -> set[int]:
    """Numbers (from 0) of the lines that begin inside a triple-quoted string: their indentation is data."""
    inside: set[int] = set()
    line = last = 0
    for start, end in triple_quoted(text):
        line += text.count("\n", last, start)
        height = text.count("\n", start, end)
        inside.update(range(line + 1, line + height + 1))
        line, last = line + height, end
    return inside


def top_level_names(tree: ast.Module | None) -> set[str]:
    """Names of the functions and classes that a module defines at its top."""
    if tree is None:
        return set()
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
    return {node.name for node in tree.body if isinstance(node, kinds)}


def used_names(tree: ast.Module) -> set[str]:
    """Every plain name that a module reads or writes."""
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
