"""Loading the judge's own files of a task folder: generate.py, checker.py, score.py.

They are trusted: written by the task's author, executed here, outside the sandbox. Nothing of a candidate is ever loaded
this way.
"""

from __future__ import annotations

import hashlib
import sys
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

from coevo.errors import TaskError

JUDGE_ERRORS = (Exception, SystemExit)
"""What the judge's own code may end with. An exit is a bug of that code as well: let through, it would end coevo silently."""


def load_judge_file(path: Path) -> types.ModuleType:
    """Execute a judge's file as a module of its own. Raises `TaskError` that names the file and the line."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as e:
        raise TaskError(f"cannot read {path}: {e.strerror or e}") from None
    name = _module_name(path)
    module = types.ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module  # dataclasses look their module up there
    try:
        exec(compile(text, str(path), "exec"), module.__dict__)
    except JUDGE_ERRORS as e:
        del sys.modules[name]
        raise TaskError(f"{path}{_line(e, path)}: {type(e).__name__}: {e}") from e
    return module


def forget_judge_files(folder: Path) -> None:
    """Let go of the modules of a task folder that nothing judges by any more."""
    for stem in ("generate", "checker", "score"):
        sys.modules.pop(_module_name(folder / f"{stem}.py"), None)


def _module_name(path: Path) -> str:
    return f"coevo_judge_{path.stem}_{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:12]}"


def judge_function(module: types.ModuleType, *names: str) -> Callable[..., Any]:
    """The first of `names` that the module defines."""
    for name in names:
        found = getattr(module, name, None)
        if callable(found):
            return found
    raise TaskError(f"{module.__file__} must define {' or '.join(f'{name}(...)' for name in names)}")


def _line(error: BaseException, path: Path) -> str:
    if isinstance(error, SyntaxError) and error.lineno:
        return f":{error.lineno}"
    line, tb = "", error.__traceback__
    while tb is not None:
        if tb.tb_frame.f_code.co_filename == str(path):
            line = f":{tb.tb_lineno}"
        tb = tb.tb_next
    return line
