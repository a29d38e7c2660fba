"""A new task works as it is: it loads, and passes all checks."""

import pytest

from coevo.errors import ConfigError, TaskError
from coevo.evaluation.check import check_task
from coevo.tasks import load_task
from coevo.tasks.new import new_task, task_name


@pytest.mark.parametrize("kind", ["function", "stdio", "open"])
def test_a_new_task_passes_its_checks(tmp_path, kind):
    folder = new_task(tmp_path / "My Task", kind)
    task = load_task(folder)
    assert task.name == "my_task" and task.kind == kind
    assert [f"{r.name}: {r.detail}" for r in check_task(task, timing=False) if not r.ok] == []


def test_nothing_is_overwritten(tmp_path):
    (tmp_path / "file").write_text("mine")
    (tmp_path / "empty").mkdir()
    new_task(tmp_path / "empty", "stdio")
    for name in ("file", "empty"):
        with pytest.raises(TaskError, match="not an empty folder"):
            new_task(tmp_path / name, "function")
    assert (tmp_path / "file").read_text() == "mine" and load_task(tmp_path / "empty").kind == "stdio"
    with pytest.raises(TaskError, match="cannot write"):
        new_task(tmp_path / "file" / "below", "function")


def test_unknown_kinds_are_named(tmp_path):
    with pytest.raises(ConfigError, match="Did you mean 'function'"):
        new_task(tmp_path / "x", "functoin")
    assert not (tmp_path / "x").exists()


def test_names_are_made_from_folders(tmp_path):
    assert task_name(tmp_path / "Größe & Co.") == "gr_e_co"
    assert task_name(tmp_path / "---") == "task"
    assert len(task_name(tmp_path / ("x" * 200))) == 80
