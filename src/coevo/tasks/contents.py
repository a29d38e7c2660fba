"""Whether the files of a task folder fit together, found by reading them: nothing is executed."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

from coevo.errors import TaskError
from coevo.programs import Program
from coevo.tasks.testfile import FILE as TESTS
from coevo.tasks.testfile import UnreadTests
from coevo.tasks.types import Kind, Task

_TESTED = (Kind.FUNCTION, Kind.STDIO)


def check_contents(task: Task) -> None:
    """Raise a `TaskError` for the first contradiction between config and files."""
    _check_entry(task)
    if task.kind in _TESTED:
        _check_tested(task)
    else:
        _check_open(task)
    if (task.folder / "draw.py").is_file():
        _need_function(task.folder / "draw.py", "draw")


def _check_entry(task: Task) -> None:
    entry, where = task.config.entry, task.folder / "task.yaml"
    if task.kind is Kind.STDIO:
        if entry is not None:
            raise TaskError(
                f"{where}: entry = {entry!r}, but kind stdio runs the whole script; remove entry, or use kind function"
            )
    elif entry is None:
        raise TaskError(f"{where}: entry is missing; name the function that program.py must define")
    elif not entry.isidentifier():
        raise TaskError(f"{where}: entry = {entry!r} is not the name of a function")
    for role, program in (("program", task.start), ("reference", task.reference), ("baseline", task.baseline)):
        if program is not None:
            _check_program(task.folder, role, program, entry)


def _check_program(folder: Path, role: str, program: Program, entry: str | None) -> None:
    several = (folder / role).is_dir()
    for name, text in program.files:
        tree = _parse(text, folder / role / name if several else folder / f"{role}.py")
        if (
            name == program.main
            and entry is not None
            and entry not in (names := set(_top_names(tree)))
            and "*" not in names
        ):
            place = folder / role / name if several else folder / f"{role}.py"
            raise TaskError(f"{place} does not define {entry!r}, the entry of task.yaml; it defines {_listing(names)}")


def _check_tested(task: Task) -> None:
    config, folder = task.config, task.folder
    where = folder / "task.yaml"
    for key in ("direction", "best_known", "parameters", "instances", "fresh_process"):
        if key in config.model_fields_set:
            raise TaskError(f"{where}: {key} is for kind open, not for kind {task.kind}; remove it")
    _refuse(task, "score.py", f"kind {task.kind} compares answers with expected ones; use kind open for a scorer")
    _refuse(task, "baseline.py", f"kind {task.kind} has a reference.py instead")
    generate = folder / "generate.py"
    if generate.is_file():
        _need_function(generate, "generate")
        if task.reference is None:
            raise TaskError(
                f"{folder} has generate.py but no reference.py (nor a folder reference/), which gives the answers"
            )
        if not config.tests and config.timing is None:
            raise TaskError(f"{where}: generate.py is never used; give tests (sizes per split) or timing")
    elif config.tests or config.timing:
        key = "tests" if config.tests else "timing"
        raise TaskError(f"{where}: {key} needs {generate.name} in {folder}: def generate(size, rng)")
    unread = isinstance(task.written_tests, UnreadTests)
    if "public" not in config.tests and not unread and not any(t.split == "public" for t in task.written_tests):
        raise TaskError(
            f"{folder} has no public test, so nothing can steer a search; add lines to {TESTS}, "
            "or tests: {public: {sizes: [...]}} with generate.py"
        )
    custom, checker = config.checker.name == "custom", folder / "checker.py"
    if custom:
        if not checker.is_file():
            raise TaskError(
                f"{where}: checker custom needs {checker.name} in {folder}: def check(output, expected, arguments)"
            )
        _need_function(checker, "check")
    elif checker.is_file():
        raise TaskError(
            f"{checker} is never used: task.yaml says checker {config.checker.name}; write checker: {{name: custom}}"
        )


def _check_open(task: Task) -> None:
    config = task.config
    for key in ("tests", "timing", "checker"):
        if key in config.model_fields_set:
            raise TaskError(
                f"{task.folder / 'task.yaml'}: {key} is for kinds function and stdio, not for kind open; remove it"
            )
    if (task.folder / "generate.py").is_file():
        _need_function(task.folder / "generate.py", "instances")
    elif not config.instances.get("public"):
        raise TaskError(
            f"{task.folder} has nothing to call the entry with; write instances: {{public: [{{}}]}} in task.yaml for a call "
            "without arguments, or generate.py with def instances(split, rng)"
        )
    for name in ("reference.py", "reference", "checker.py"):
        _refuse(task, name, "kind open is judged by score.py; use kind function or stdio for expected answers")
    score = task.folder / "score.py"
    if not score.is_file():
        raise TaskError(
            f"{task.folder} has no score.py: def score(output, instance) -> float or {{'score': float, ...}}"
        )
    _need_function(score, "score", "score_all")


def _refuse(task: Task, name: str, why: str) -> None:
    if (task.folder / name).exists():
        raise TaskError(f"{task.folder / name} does not belong to kind {task.kind}: {why}")


def _need_function(path: Path, *names: str) -> None:
    """One of `names` must be defined at the top level of a judge's file."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise TaskError(f"{path} is not UTF-8 text") from None
    found = set(_top_names(_parse(text, path)))
    if not found & {*names, "*"}:
        raise TaskError(f"{path} does not define {' or '.join(names)}; it defines {_listing(found)}")


def _parse(text: str, path: Path) -> ast.Module:
    try:
        return ast.parse(text)
    except SyntaxError as e:
        line = f":{e.lineno}" if e.lineno else ""
        raise TaskError(f"{path}{line}: not valid Python: {e.msg}") from None
    except (ValueError, RecursionError, MemoryError) as e:
        raise TaskError(f"{path}: not valid Python: {e or type(e).__name__}") from None


def _top_names(tree: ast.Module) -> Iterator[str]:
    """Names bound at module level, also inside if, try, with and loops; "*" for a star import."""
    pending: list[ast.AST] = list(tree.body)
    while pending:
        node = pending.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from (alias.asname or alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            for target in node.targets if isinstance(node, ast.Assign) else [node.target]:
                yield from (leaf.id for leaf in ast.walk(target) if isinstance(leaf, ast.Name))
        else:
            pending += [
                child for child in ast.iter_child_nodes(node) if isinstance(child, ast.stmt | ast.excepthandler)
            ]


def _listing(names: set[str]) -> str:
    shown = sorted(names)
    return ", ".join(shown[:8]) + (", ..." if len(shown) > 8 else "") if shown else "nothing"
