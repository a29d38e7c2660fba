"""What lies in a skill's folder: read once, bounded, and refused where a skill has no business."""

from __future__ import annotations

import hashlib
import os
import re
import stat
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import NamedTuple

MAX_FILES = 64
MAX_FILE = 256 << 10
MAX_SCRIPT = 64 << 10
"""Bytes; a script is also one argument of a process."""
MAX_TOTAL = 1 << 20
MAX_DEPTH = 4
SUFFIXES = (".md", ".txt", ".py", ".yaml", ".yml", ".json", ".jsonl", ".csv", ".toml")
"""Kinds of text a skill may hold. A file without a suffix (LICENSE) is text, too."""
PROJECTIONS = frozenset({"references/evidence.md"})
"""Written from a lab's events: no part of the skill's digest."""

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")


class Contents(NamedTuple):
    """Texts by path, and what was wrong: the files with a problem are not among the texts."""

    files: Mapping[str, str]
    problems: tuple[str, ...]
    complete: bool = True
    """False: reading ended early, since there was too much of it."""


def read_contents(folder: Path) -> Contents:
    """Read a skill's folder. Hidden files and `__pycache__` are no part of it; everything else must be small, plain text, and really there."""
    files: dict[str, str] = {}
    problems: list[str] = []
    total = seen = 0
    if folder.is_symlink() or not folder.is_dir():
        return Contents({}, (f"{folder} is no folder",))
    for path, why in _walk(folder, folder):
        name = path.relative_to(folder).as_posix()
        seen += 1
        if seen > MAX_FILES:
            return Contents(
                files, (*problems, f"more than {MAX_FILES} files; keep what the skill needs"), complete=False
            )
        text, why = ("", why) if why else _text(path, name)
        if why:
            problems.append(f"{_shown(name)}: {why}")
            continue
        total += len(text.encode())
        if total > MAX_TOTAL:
            too_much = f"all files together are over {MAX_TOTAL:,} bytes; keep what the skill needs"
            return Contents(files, (*problems, too_much), complete=False)
        files[name] = text
    return Contents(files, tuple(problems))


def digest_of(files: Mapping[str, str]) -> str:
    """SHA-256 over paths and texts, projections left out."""
    found = hashlib.sha256()
    for name in sorted(set(files) - PROJECTIONS):
        for part in (name.encode(), files[name].encode()):
            found.update(len(part).to_bytes(8, "big"))
            found.update(part)
    return found.hexdigest()


def inside(name: str) -> bool:
    """Whether a path given by a skill stays in its folder."""
    path = PurePosixPath(name)
    parts = path.parts
    return (
        bool(parts)
        and not path.is_absolute()
        and len(parts) <= MAX_DEPTH
        and all(_NAME.fullmatch(p) for p in parts)
        and str(path) == name
    )


def _walk(root: Path, folder: Path) -> Iterator[tuple[Path, str]]:
    """Entries in order of name, each with the reason why it is refused, or ""."""
    for entry in sorted(os.scandir(folder), key=lambda e: e.name):
        path = Path(entry.path)
        if entry.name.startswith(".") or entry.name == "__pycache__":
            continue
        if entry.is_symlink():
            yield path, "is a symbolic link; copy what it points to"
        elif not _NAME.fullmatch(entry.name):
            yield path, "its name has characters other than letters, digits, '.', '_' and '-', or over 100 of them"
        elif entry.is_dir(follow_symlinks=False):
            if len(path.relative_to(root).parts) >= MAX_DEPTH:
                yield path, f"lies deeper than {MAX_DEPTH} folders"
            else:
                yield from _walk(root, path)
        else:
            yield path, ""


def _text(path: Path, name: str) -> tuple[str, str]:
    """A file's text, or why it is none. Opened without following links, and never waiting on a pipe."""
    suffix = path.suffix.lower()
    if suffix and suffix not in SUFFIXES:
        return "", f"files of kind {suffix!r} are not part of a skill; allowed: {', '.join(SUFFIXES)}"
    most = MAX_SCRIPT if suffix == ".py" else MAX_FILE
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as e:
        return "", f"cannot be read: {e.strerror or e}"
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            return "", "is not a plain file"
        data = file.read(most + 1)
    if len(data) > most:
        return "", f"is over {most:,} bytes"
    if b"\0" in data:
        return "", "is binary; a skill holds text only"
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as e:
        line = data[: e.start].count(b"\n") + 1
        return "", f"line {line}: is not UTF-8 text"
    if text.startswith("﻿"):
        return "", "begins with a byte order mark; save it as plain UTF-8"
    if suffix == "" and text.startswith("#!"):
        return "", "is a program without a suffix; scripts are .py files in scripts/"
    return text.replace("\r\n", "\n"), ""


def _shown(name: str) -> str:
    return name if inside(name) else ascii(name)[:200]
