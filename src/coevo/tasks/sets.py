"""Many tasks at once: what `--tasks` of the trainer, the bench and the synthesizer take.

A reference is one of

    sorting_inversions, circle_packing:n=29, ./my_task     one task, as `load_task` takes it
    ./converted/apps                                       a folder of task folders: all of them, by name
    library:function, library:stdio, library:open          the shipped tasks of a kind (of a family, the default member)

Written tests stay on disk until a judge asks for them, so that a set of 10,000 tasks costs its statements and programs only.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from coevo.config import read_yaml
from coevo.errors import TaskError, boundary, pick
from coevo.tasks.loader import CONFIG, LIBRARY, list_tasks, load_task
from coevo.tasks.types import Kind, Task

SHIPPED = "library:"
_KINDS = {kind.value: kind for kind in (Kind.FUNCTION, Kind.STDIO, Kind.OPEN)}
_TASK_FILES = ({CONFIG}, {"initial_program.py", "evaluator.py"})
"""Any of these sets of files makes a folder one task."""


def load_tasks(refs: Sequence[str]) -> list[Task]:
    """The tasks that all `refs` name, in their order. Raises `TaskError` for an unknown one, for two tasks of one name, and for
    a folder in which there is none."""
    if isinstance(refs, str):
        refs = (refs,)
    found: dict[str, tuple[str, Task]] = {}
    for ref in refs:
        for task in _tasks_of(ref):
            if task.name in found:
                other, same = found[task.name][0], found[task.name][1].folder == task.folder
                where = f"both from {task.folder}" if same else f"{found[task.name][1].folder} and {task.folder}"
                raise TaskError(
                    f"two tasks are called {task.name!r} ({where}; named by {other!r} and {ref!r}); results are told apart by "
                    "name, so give each task once, and rename one in its task.yaml if they differ"
                )
            found[task.name] = ref, task
    return [task for _, task in found.values()]


def task_ref(task: Task) -> str:
    """What loads `task` again, in any process: its name where it is a shipped one, else its folder (with a family's parameters)."""
    if task.folder.parent == LIBRARY.resolve():
        return task.name
    _, _, parameters = task.name.partition(":")
    return f"{task.folder}:{parameters}" if parameters else str(task.folder)


def _tasks_of(ref: str) -> Iterable[Task]:
    text = str(ref).strip()
    if text.startswith(SHIPPED):
        return _shipped(pick(text.removeprefix(SHIPPED), _KINDS, kind=f"kind of shipped tasks in {text!r}"))
    folder = _folder_of_tasks(text)
    if folder is None:
        return [load_task(text, lazy=True)]
    return _within(folder, text)


def _shipped(kind: Kind) -> list[Task]:
    """Shipped tasks of a kind, by name; second names are left out."""
    names = (name for name in list_tasks() if "alias" not in read_yaml(LIBRARY / name / CONFIG))
    return [task for name in names if (task := load_task(name, lazy=True)).kind is kind]


def _folder_of_tasks(text: str) -> Path | None:
    """The folder that `text` means, if it is one and not itself a task. A shipped name wins over a folder, as in `load_task`."""
    path = Path(text).expanduser()
    with boundary(TaskError, f"cannot read {text!r:.200}"):
        if not text or not path.is_dir() or text in list_tasks():
            return None
        single = any(all((path / name).is_file() for name in names) for names in _TASK_FILES)
    return None if single else path


def _within(folder: Path, ref: str) -> Iterable[Task]:
    with boundary(TaskError, f"cannot read {folder}"):
        inside = sorted(p for p in folder.iterdir() if p.is_dir() and not p.name.startswith((".", "__")))
    if not inside:
        raise TaskError(
            f"{ref} is neither a task folder (it has no {CONFIG}) nor a folder of task folders (it has no folder in it)"
        )
    return (load_task(path, lazy=True) for path in inside)


__all__ = ["load_tasks", "task_ref"]
