"""From a recorded row to a task folder."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from coevo.errors import TaskError, UsageError
from coevo.tasks.importers.recording import Recorded
from coevo.tasks.importers.rows import Row, blank, signature
from coevo.tasks.importers.shown import call_key, shown_calls, without_examples
from coevo.tasks.loader import CONFIG, load_task
from coevo.tasks.testfile import FILE, write_tests
from coevo.tasks.types import Checker, Kind, Split, Test

MOST_PUBLIC = 3
RULE = 2
"""Of how calls become tests; folders made by another one are other tasks."""


def write_folder(row: Row, found: Recorded, folder: Path, source: str) -> Path:
    """Write the task, load it once, and return its folder. Raises `TaskError`, leaving no folder, if it does not load, and
    `UsageError` if nothing can be written there."""
    row, tests = split_tests(row, found)
    call, text = signature(row)
    config: dict[str, Any] = {
        "name": folder.name,
        "kind": "function",
        "title": row.entry,
        "entry": row.entry,
        "statement": f"Write `{call}`.\n\n{text}".strip() + "\n",
        "checker": checker_of(found).model_dump(exclude_defaults=True) or {"name": "exact"},
    }
    if found.preload != "stdlib":
        config["preload"] = str(found.preload)
    config |= {"tags": [source], "citation": f"{source}, {row.id}"}
    part = folder.with_name(f".{folder.name}.part")  # renamed when complete, so that a kill leaves no half task
    try:
        shutil.rmtree(part, ignore_errors=True)
        part.mkdir()
        (part / CONFIG).write_text(_yaml(config), encoding="utf-8")
        (part / "program.py").write_text(blank(row), encoding="utf-8")
        (part / "reference.py").write_text(row.solution.rstrip() + "\n", encoding="utf-8")
        write_tests(part / FILE, tests, Kind.FUNCTION)
        load_task(part)
        part.rename(folder)
    except OSError as e:
        shutil.rmtree(part, ignore_errors=True)
        raise UsageError(f"cannot write {folder}: {e.strerror or e}") from None
    except (UsageError, ValueError) as e:
        shutil.rmtree(part, ignore_errors=True)
        raise TaskError(str(e)) from e
    return folder


def split_tests(row: Row, found: Recorded) -> tuple[Row, list[Test]]:
    """The calls as tests with splits, and the row with a prompt that shows no hidden one (see the package's rule)."""
    keys = [call_key(call.args, call.kwargs) for call in found.calls]
    first = set(keys[: max(1, min(MOST_PUBLIC, len(keys) // 3))])
    shown = shown_calls(row.prompt, row.entry)
    if not (first | shown).issuperset(keys):
        first |= shown
    hidden = set(keys) - first
    prompt = without_examples(row.prompt, row.entry, hidden)
    leaked = hidden & shown_calls(prompt, row.entry)
    if hidden == leaked:
        raise TaskError("the prompt shows every call of the check, and not as examples that could be cut")
    hidden -= leaked
    unseen = [key for key in keys if key in hidden]
    if len(unseen) > 1 and set(keys) - hidden <= shown_calls(prompt, row.entry):
        hidden.remove(unseen[0])  # What is paid for is more than what the prompt gives away.
    tests = []
    for number, (key, call, answer) in enumerate(zip(keys, found.calls, found.answers, strict=True), start=1):
        split: Split = "hidden" if key in hidden else "public"
        tests.append(Test(split, args=tuple(call.args), kwargs=call.kwargs, expected=answer, name=f"call {number}"))
    return replace(row, prompt=prompt), tests


def checker_of(found: Recorded) -> Checker:
    """floats when an answer holds one (as loose as the check was), unordered when the check sorts, else exact."""
    floats = any(_holds_float(answer) for answer in found.answers)
    near = {"abs": max(Checker().abs, found.form.tolerance)} if floats else {}
    if found.form.unordered:
        return Checker(name="unordered", **near) if floats else Checker(name="unordered", rel=0, abs=0)
    return Checker(name="floats", **near) if floats else Checker()


def _holds_float(value: Any) -> bool:
    if isinstance(value, float | complex):
        return True
    if isinstance(value, dict):
        return any(_holds_float(item) for pair in value.items() for item in pair)
    return isinstance(value, list | tuple | set | frozenset) and any(map(_holds_float, value))


class _Dumper(yaml.SafeDumper):
    """Texts of several lines as blocks."""


def _represent(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _represent)


def _yaml(config: dict[str, Any]) -> str:
    return yaml.dump(config, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)
