"""From a task folder, or the name of a shipped task, to a `Task`. Loading executes nothing of the folder.

A reference to a task is one of

    sorting_inversions              a shipped task
    ./my_task, /path/to/my_task     a folder
    circle_packing:n=29             a member of a family, shipped or (after its path) a folder

Everything that is wrong with a folder is a `TaskError` (or, for task.yaml, a `ConfigError`) that names the file, the line or
key, the value, and what to write instead.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from coevo.config import parse, read_yaml
from coevo.errors import TaskError, UsageError, boundary
from coevo.programs import Program
from coevo.tasks.contents import check_contents
from coevo.tasks.family import resolve_family
from coevo.tasks.testfile import FILE as TESTS
from coevo.tasks.testfile import UnreadTests, read_tests
from coevo.tasks.types import Kind, Task, TaskAlias, TaskConfig, Test

LIBRARY = Path(__file__).parent / "library"
"""Where the shipped tasks are."""

CONFIG = "task.yaml"

_PROGRAMS = ("program", "reference", "baseline")
"""Each is one file NAME.py, or a folder NAME/ whose main file is program.py."""

_NOT_JUDGE = {CONFIG, "draw.py", *(f"{name}.py" for name in _PROGRAMS)}


def list_tasks() -> list[str]:
    """Names of the shipped tasks, sorted."""
    return sorted(path.parent.name for path in LIBRARY.glob(f"*/{CONFIG}"))


def load_task(ref: str | Path, *, lazy: bool = False) -> Task:
    """The task that `ref` names (see the module's description of references).

    A shipped name is looked up first; a folder of the same name is reached as `./name`. `lazy` leaves tests.jsonl unread,
    and so unchecked, until the task is judged.
    """
    folder, parameters = _locate(ref)
    if not _is_dir(str(folder)):
        raise TaskError(
            f"no task folder at {folder}; `coevo tasks list` shows the shipped ones, `coevo tasks new` makes one"
        )
    if not (folder / CONFIG).is_file():
        if all((folder / name).is_file() for name in ("initial_program.py", "evaluator.py")):
            return _load_foreign(folder, parameters)
        raise TaskError(
            f"{folder} is not a task folder: it has no {CONFIG} (nor initial_program.py with evaluator.py); "
            "`coevo tasks new FOLDER` makes one"
        )
    data = read_yaml(folder / CONFIG)
    if "alias" in data:
        return _aliased(data, folder, parameters, lazy=lazy)
    config = resolve_family(_config(data, folder), parameters, where=str(folder / CONFIG))
    start = _program(folder, "program")
    if start is None:
        raise TaskError(f"{folder} has no program.py (nor a folder program/): the program a search starts from")
    task = Task(
        config,
        folder.resolve(),
        start,
        reference=_program(folder, "reference"),
        baseline=_program(folder, "baseline"),
        written_tests=_written_tests(folder, config.kind, lazy=lazy),
        source_files=_judge_files(folder),
    )
    check_contents(task)
    return task


def task_digest(task: Task) -> str:
    """SHA-256, in hexadecimal, over all that decides how a program is judged: config, judge files, programs.

    Equal digests mean equal judging, whatever the folder is called. Formatting of task.yaml does not count.
    """
    digest = hashlib.sha256()

    def add(*parts: str | bytes) -> None:
        for part in parts:
            raw = part if isinstance(part, bytes) else part.encode("utf-8", "surrogatepass")
            digest.update(len(raw).to_bytes(8, "big") + raw)

    add("config", json.dumps(task.config.model_dump(mode="json"), sort_keys=True))
    for role, program in (("start", task.start), ("reference", task.reference), ("baseline", task.baseline)):
        for name, text in program.files if program else ():
            add(role, name, text)
    for name in task.source_files:
        with boundary(TaskError, f"cannot read {task.folder / name}"):
            add("judge", name, (task.folder / name).read_bytes())
    return digest.hexdigest()


def _locate(ref: str | Path) -> tuple[Path, dict[str, str]]:
    """The folder that a reference means, and its parameters as text."""
    if isinstance(ref, Path):
        return ref, {}
    text = ref.strip()
    if not text:
        raise TaskError("a task is named by a shipped name or a folder, not by nothing; see `coevo tasks list`")
    if _is_dir(text) and (_is_path(text) or text not in list_tasks()):
        return Path(text), {}
    name, _, rest = text.partition(":")
    parameters = _parameters(rest, ref)
    if _is_path(name):
        return Path(os.path.expanduser(name)), parameters
    shipped = list_tasks()
    if name in shipped:
        return LIBRARY / name, parameters
    if _is_dir(name):
        return Path(name), parameters
    near = get_close_matches(name, shipped, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise TaskError(
        f"unknown task {name!r}.{hint} `coevo tasks list` shows the shipped ones; write ./{name or 'FOLDER'} for a folder"
    )


def _is_dir(text: str) -> bool:
    try:
        return Path(text).is_dir()
    except OSError:  # too long for a file name, say
        return False


def _is_path(text: str) -> bool:
    return "/" in text or text in (".", "..") or text.startswith("~")


def _parameters(text: str, ref: str) -> dict[str, str]:
    parameters: dict[str, str] = {}
    for part in text.split(",") if text else []:
        key, sep, value = (piece.strip() for piece in part.partition("="))
        if not (key and sep and value) or key in parameters:
            raise TaskError(
                f"task {ref!r}: after the colon write name=value, each name once, separated by commas; not {part!r}"
            )
        parameters[key] = value
    return parameters


def _config(data: dict[str, Any], folder: Path) -> TaskConfig:
    kind = data.get("kind")
    if kind in (Kind.MATH, Kind.REPO):
        raise TaskError(f"{folder / CONFIG}: kind {kind!r} is reserved and comes later; use function, stdio or open")
    if kind == Kind.OPENEVOLVE:
        raise TaskError(
            f"{folder / CONFIG}: kind {kind!r} is for folders with initial_program.py and evaluator.py, which need no {CONFIG}"
        )
    return parse(TaskConfig, data, where=str(folder / CONFIG))


def _aliased(data: dict[str, Any], folder: Path, parameters: dict[str, str], *, lazy: bool) -> Task:
    alias = parse(TaskAlias, data, where=str(folder / CONFIG)).alias
    if parameters:
        raise TaskError(f"{folder.name!r} is another name of {alias!r} and takes no parameters; give them to that task")
    target, _ = _locate(alias)
    if target.resolve() == folder.resolve() or "alias" in (
        read_yaml(target / CONFIG) if (target / CONFIG).is_file() else {}
    ):
        raise TaskError(f"{folder / CONFIG}: alias {alias!r} leads to another alias; name the task itself")
    return load_task(alias, lazy=lazy)


def _load_foreign(folder: Path, parameters: dict[str, str]) -> Task:
    from coevo.tasks.openevolve import load_openevolve

    if parameters:
        raise TaskError(
            f"{folder} is an OpenEvolve folder and takes no parameters, but {', '.join(parameters)} was given"
        )
    return load_openevolve(folder)


def _program(folder: Path, role: str) -> Program | None:
    """The program in `role`.py or in the folder `role`/, if any; both at once are a contradiction."""
    single, several = folder / f"{role}.py", folder / role
    if single.is_file() and several.is_dir():
        raise TaskError(f"{folder} has both {single.name} and {several.name}/; keep one of them")
    if not single.is_file() and not several.is_dir():
        return None
    try:
        return Program.read(single if single.is_file() else several)
    except UsageError as e:
        raise TaskError(str(e)) from None


def _written_tests(folder: Path, kind: Kind, *, lazy: bool) -> Sequence[Test]:
    path = folder / TESTS
    if not path.exists():
        return ()
    if kind not in (Kind.FUNCTION, Kind.STDIO):
        raise TaskError(f"{path}: kind {kind} is judged by score.py and has no {TESTS}; remove it or change the kind")
    return UnreadTests(path.resolve(), kind) if lazy else read_tests(path, kind)


def _judge_files(folder: Path) -> tuple[str, ...]:
    """All files but programs, config, pictures and prose: what generate.py, checker.py and score.py are, or may read."""
    return tuple(sorted(name for name in _files(folder, folder) if name not in _NOT_JUDGE and not name.endswith(".md")))


def _files(folder: Path, root: Path) -> Iterable[str]:
    for path in folder.iterdir():
        if path.name.startswith(".") or path.name == "__pycache__" or path.suffix == ".pyc":
            continue
        if path.is_dir():
            if path.is_symlink():
                raise TaskError(f"{path} is a link to a folder; a task's files must lie in its own folder")
            if folder == root and path.name in _PROGRAMS:
                continue
            yield from _files(path, root)
        elif path.is_file():
            yield path.relative_to(root).as_posix()
