"""Commands in README.md and docs/ are commands that there are, with options that they have and settings that are known."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from coevo.cli.main import app
from coevo.config import parse, with_sets
from coevo.lab.settings import LabConfig
from coevo.training.settings import Recipe

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted(path for path in (ROOT / "docs").glob("*.md") if path.name != "log.md")]
SHELLS = ("", "bash", "sh", "console", "shell")
ENDS = {"&&", "|", ";", ">", ">>", "||"}
RUN = (
    "coevo tasks list",
    "coevo skills show copy-trap",
    "coevo config lab",
    "coevo evaluate --help",
)
"""Cheap enough to be run as they stand."""


def commands(page: Path) -> Iterator[tuple[int, list[str]]]:
    """(line, words) of each command in a page's fenced shell blocks: continued lines joined, comments and placeholders in brackets taken off."""
    fenced, shell, joined = False, False, ""
    for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1):
        if line.strip().startswith("```"):
            fenced = not fenced
            shell = fenced and line.strip()[3:].strip() in SHELLS
            continue
        if not shell:
            continue
        joined += line.strip().removeprefix("$ ")
        if joined.endswith("\\"):
            joined = joined[:-1] + " "
            continue
        text, joined = re.sub(r"\[(--[a-z-]+)\]", r"\1", joined), ""
        if re.match(r"(coevo|make|python3? -m coevo) ", text):
            yield from ((number, words) for words in _split(text))


def _split(text: str) -> Iterator[list[str]]:
    lexer = shlex.shlex(text, posix=True, punctuation_chars="&|;>")
    lexer.whitespace_split = True
    words: list[str] = []
    for word in [*lexer, "&&"]:
        if word in ENDS:
            if words:
                yield words
            words = []
        elif word != "...":
            words.append(word)


def checked(words: list[str]) -> None:
    """Raises where the command line has no meaning."""
    command, context = typer.main.get_command(app), None
    names = words[1:]
    while hasattr(command, "commands"):
        if not names or names[0].startswith("-"):
            return
        command = command.commands[names.pop(0)]  # type: ignore[attr-defined]
    context = command.make_context(" ".join(words), names, resilient_parsing="--help" in names)
    sets = context.params.get("sets")
    if sets and words[1] == "lab" and words[2] in ("new", "run"):
        parse(LabConfig, with_sets({}, sets), where=" ".join(words))
    if sets and words[1] == "train":
        parse(Recipe, with_sets({}, sets), where=" ".join(words))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_each_command_is_one(page: Path) -> None:
    targets = set(re.findall(r"^([a-z][a-z-]*):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    wrong = []
    for number, words in commands(page):
        if words[0] == "make":
            goals = [word for word in words[1:] if "=" not in word]
            bench = {goal for goal in goals if (ROOT / f"benchmarks/{goal.replace('-', '_')}.py").is_file()}
            wrong += [f"{page.name}:{number}: make {goal}: no such target" for goal in set(goals) - targets - bench]
            continue
        words = words[2:] if words[1:3] == ["-m", "coevo"] else words
        if words[0] != "coevo":
            continue
        try:
            checked(words)
        except Exception as e:
            wrong.append(f"{page.name}:{number}: {' '.join(words)}: {type(e).__name__}: {e}")
    assert not wrong, "\n".join(wrong)


def test_the_pages_hold_commands() -> None:
    assert sum(1 for page in PAGES for _ in commands(page)) > 70


@pytest.mark.parametrize("command", RUN)
def test_cheap_ones_run_as_they_stand(command: str) -> None:
    found = CliRunner().invoke(app, command.split()[1:])
    assert found.exit_code == 0 and len(found.output) > 100, found.output
