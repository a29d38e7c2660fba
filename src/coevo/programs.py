"""A program: one or several source files, with an id that survives cosmetic edits.

The id is a hash of the *normal form*: comments, blank lines, trailing space, line ends and the space
between tokens do not count; anything that could change behaviour does. Two programs with the same id
are the same program, and are never evaluated twice.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain, zip_longest
from pathlib import Path, PurePosixPath

from coevo.errors import UsageError

MAIN = "program.py"
"""The file in which a task's entry point is looked up."""

MAX_PROGRAM_BYTES = 1 << 20
MAX_FILES = 1000
MAX_NAME_BYTES = 250

_STRING = r"""'''(?:\\.|[^\\])*?'''|\"\"\"(?:\\.|[^\\])*?\"\"\"|'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*\""""
_OPAQUE = re.compile(rf"({_STRING}|\#[^\n]*)", re.DOTALL)
_TOKEN = re.compile(
    rf"(?P<string>{_STRING})|(?P<comment>\#[^\n]*)|(?P<newline>\n[ \t\n]*)|(?P<space>(?:[ \t\f]|\\\n)+)", re.DOTALL
)
_WORD = re.compile(r"\w")
_SPACES = re.compile(r"[ \t]{2,}|\t")
_NEEDLESS = re.compile(r""" (?!(?<=[\w'".\0] )[\w'".\0])(?!(?<=([-+*/<>=&|]) )\1)""")
"""A space that may go: `_touching` in one pattern, with a NUL for every string."""


def normal_form(source: str) -> str:
    """Source without comments, blank lines, trailing space, and space that only separates tokens.

    Works on text that is not valid Python, too (then it merely strips what looks like a comment).
    Indentation, which carries meaning, is kept as written.
    """
    return _remembered(source) if len(source) <= 20_000 else _normal_form(source)


def _normal_form(source: str) -> str:
    text = source.replace("\r\n", "\n").replace("\r", "\n")
    if "\0" in text:
        return _by_token(text)
    code = _OPAQUE.split(text)
    opaque, code[1::2] = code[1::2], ["" if part[0] == "#" else "\0" for part in code[1::2]]
    bare = "".join(code)
    if "\f" in bare or "\\\n" in bare:
        return _by_token(text)
    lines = [line for line in (line.rstrip(" \t") for line in bare.split("\n")) if line]
    stripped = [line.lstrip(" \t") for line in lines]
    dense = _NEEDLESS.sub("", _SPACES.sub(" ", "\n".join(stripped))).split("\n")
    indents = (line[: len(line) - len(rest)] for line, rest in zip(lines, stripped, strict=True))
    out = "\n".join(map(str.__add__, indents, dense)).split("\0")
    return "".join(chain.from_iterable(zip_longest(out, [part for part in opaque if part[0] != "#"], fillvalue="")))


_remembered = lru_cache(maxsize=8)(_normal_form)
"""Of a new program it is asked for twice: for its id, and for its traits."""


def _by_token(text: str) -> str:
    """What the normal form is, token by token. `_normal_form` reaches the same by whole-text operations, three times faster,
    where there are no form feeds, continued lines or NULs."""
    out: list[str] = []
    last = 0
    pending_newline: str | None = None

    def emit(piece: str) -> None:
        nonlocal pending_newline
        if pending_newline is not None:
            if out:
                out.append("\n")
            out.append(pending_newline)
            pending_newline = None
        out.append(piece)

    for match in _TOKEN.finditer(text):
        if match.start() > last:
            emit(text[last : match.start()])
        last = match.end()
        kind = match.lastgroup
        if kind == "string":
            emit(match.group())
        elif kind == "newline":
            pending_newline = match.group().rpartition("\n")[2]
        elif kind == "space":
            before, after = text[match.start() - 1 : match.start()], text[match.end() : match.end() + 1]
            if match.start() == 0:
                pending_newline = re.match(r"[ \t\f]*", text).group()  # type: ignore[union-attr]
            elif pending_newline is None and _touching(before, after):
                emit(" ")
    if last < len(text):
        emit(text[last:])
    return "".join(out)


def _touching(before: str, after: str) -> bool:
    """Whether dropping the space between two characters could join two tokens into another one."""
    if not before or not after:
        return False
    wordy = bool(_WORD.match(before)) or before in "'\"."
    return (wordy and (bool(_WORD.match(after)) or after in "'\".")) or (before == after and before in "+-*/<>=&|")


def check_names(names: Collection[str]) -> None:
    """Raise `UsageError` unless files of all these names can lie in one folder, each at one path only."""
    if (count := len({*names, *(folder for name in names for folder in PurePosixPath(name).parents)})) > MAX_FILES:
        raise UsageError(f"a program of {count:,} files and folders is over the limit of {MAX_FILES:,}")
    for name in names:
        path = PurePosixPath(name)
        plain = str(path) == name and name.isprintable() and "\\" not in name and len(name.encode()) <= MAX_NAME_BYTES
        if not plain or path.is_absolute() or ".." in path.parts or not path.parts:
            raise UsageError(
                f"program file {name!r:.300} must be a plain relative path inside the program, of at most {MAX_NAME_BYTES} bytes"
            )
        if over := next((str(folder) for folder in path.parents if str(folder) in names), None):
            raise UsageError(
                f"program file {name!r} must be a relative path whose folders are no files, but {over!r} is one"
            )


@dataclass(frozen=True)
class Program:
    """Source files by relative path. The one named `main` holds the entry point."""

    files: tuple[tuple[str, str], ...]
    main: str = MAIN

    @classmethod
    def of(cls, source: str | Mapping[str, str], main: str = MAIN) -> Program:
        """From one source text, or from a mapping of relative paths to texts."""
        files = {main: source} if isinstance(source, str) else dict(source)
        if main not in files:
            raise UsageError(f"a program needs a file {main!r}; it has {', '.join(sorted(files)) or 'none'}")
        check_names(files)
        size = sum(len(text) for text in files.values())
        if size > MAX_PROGRAM_BYTES:
            raise UsageError(f"a program of {size:,} characters is over the limit of {MAX_PROGRAM_BYTES:,}")
        return cls(tuple(sorted(files.items())), main)

    @classmethod
    def read(cls, path: str | Path, main: str = MAIN) -> Program:
        """From a file, or from a folder with `main` in it (its `*.py` files, at any depth)."""
        path = Path(path)
        try:
            if path.is_file():
                return cls.of(path.read_text(encoding="utf-8"))
            if path.is_dir():
                found = {p.relative_to(path).as_posix(): p.read_text(encoding="utf-8") for p in path.rglob("*.py")}
                return cls.of(found, main)
        except UnicodeDecodeError:
            raise UsageError(f"program {path} is not UTF-8 text") from None
        except OSError as e:
            raise UsageError(f"cannot read program {path}: {e.strerror or e}") from None
        raise UsageError(f"no program at {path}: give a .py file or a folder with {main}")

    def write(self, path: str | Path) -> Path:
        """To `path` as a file (one source) or a folder (several). Returns what was written."""
        path = Path(path)
        if len(self.files) == 1:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(self.source, encoding="utf-8")
            return path
        for name, text in self.files:
            target = path / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")
        return path

    @property
    def source(self) -> str:
        """Text of the main file."""
        return dict(self.files)[self.main]

    def with_source(self, source: str, name: str | None = None) -> Program:
        """The same program with one file (the main one, unless named) replaced."""
        return Program.of({**dict(self.files), (name or self.main): source}, self.main)

    @cached_property
    def id(self) -> str:
        """16 hex digits of a SHA-256 over the names and normal forms of all files."""
        digest = hashlib.sha256()
        for name, text in self.files:
            for part in (name, normal_form(text)):
                raw = part.encode("utf-8", "surrogatepass")
                digest.update(len(raw).to_bytes(8, "big") + raw)
        return digest.hexdigest()[:16]

    @property
    def size(self) -> int:
        """Characters over all files."""
        return sum(len(text) for _, text in self.files)
