"""Many tasks by few references: order, duplicates, laziness, and references that survive the way to another process."""

import os
import pickle
from pathlib import Path

import pytest
import yaml

from coevo.errors import ConfigError, TaskError
from coevo.tasks import list_tasks, load_task, task_digest
from coevo.tasks.loader import LIBRARY
from coevo.tasks.sets import load_tasks, task_ref
from coevo.tasks.types import Kind

LINES = '{"split": "public", "args": [1], "expected": 2}\n{"split": "hidden", "args": [2], "expected": 3}\n'


def write(folder: Path, name: str, lines: str = LINES) -> Path:
    path = folder / name
    path.mkdir(parents=True)
    config = {"name": name, "kind": "function", "entry": "f", "statement": f"Write f of {name}."}
    (path / "task.yaml").write_text(yaml.safe_dump(config))
    (path / "program.py").write_text("def f(x):\n    return x\n")
    (path / "tests.jsonl").write_text(lines)
    return path


def test_a_folder_of_task_folders_is_all_of_them_by_name(tmp_path):
    for name in ("b", "a", "c"):
        write(tmp_path / "set", name)
    (tmp_path / "set" / ".cache").mkdir()
    (tmp_path / "set" / "README.md").write_text("Not a task.")
    single = write(tmp_path, "z")
    found = load_tasks([str(single), f"{tmp_path}/set", "circle_packing:n=29", "two_sum_pairs"])
    assert [task.name for task in found] == ["z", "a", "b", "c", "circle_packing:n=29", "two_sum_pairs"]
    assert list(found[1].written_tests) == list(load_task(tmp_path / "set" / "a").written_tests)


@pytest.mark.parametrize("kind", [Kind.FUNCTION, Kind.STDIO, Kind.OPEN])
def test_the_shipped_tasks_of_a_kind_once_each(kind):
    found = load_tasks([f"library:{kind}"])
    assert found and all(task.kind is kind for task in found)
    folders = [task.folder for task in found]
    assert folders == sorted(set(folders)) and len({task.name for task in found}) == len(found)


def test_the_kinds_share_the_library_out():
    found = load_tasks(["library:function", "library:stdio", "library:open"])
    plain = [name for name in list_tasks() if "alias" not in yaml.safe_load((LIBRARY / name / "task.yaml").read_text())]
    assert sorted(task.folder.name for task in found) == plain


def test_two_tasks_of_one_name_are_refused_with_both_places(tmp_path):
    write(tmp_path / "one", "same"), write(tmp_path / "two", "same")
    with pytest.raises(
        TaskError, match=r"two tasks are called 'same' \(.*one/same and .*two/same; named by '.*one' and"
    ):
        load_tasks([f"{tmp_path}/one", f"{tmp_path}/two"])
    with pytest.raises(TaskError, match="give each task once"):
        load_tasks(["two_sum_pairs", "library:function"])


@pytest.mark.parametrize(
    ("ref", "said"),
    [
        (
            "library:functions",
            "unknown kind of shipped tasks in 'library:functions' 'functions'. Did you mean 'function'",
        ),
        ("two_sum_pair", "Did you mean 'two_sum_pairs'"),
        ("", "not by nothing"),
        ("x" * 5000 + "/y", "cannot read|no task folder"),
    ],
)
def test_what_names_no_task_is_an_error_that_helps(ref, said):
    with pytest.raises((TaskError, ConfigError), match=said):
        load_tasks([ref])


def test_a_folder_without_tasks_and_a_folder_that_is_none(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(TaskError, match="neither a task folder"):
        load_tasks([f"{tmp_path}/empty"])
    write(tmp_path / "set", "a")
    (tmp_path / "set" / "half").mkdir()
    with pytest.raises(TaskError, match="half is not a task folder"):
        load_tasks([f"{tmp_path}/set"])


def test_written_tests_are_read_when_asked_for_and_not_before(tmp_path):
    path = write(tmp_path, "late", lines="this is no test\n")
    task = load_tasks([str(path)])[0]
    with pytest.raises(TaskError, match=r"tests.jsonl:1: not valid JSON"):
        list(task.written_tests)
    (path / "tests.jsonl").write_text(LINES)
    again = pickle.loads(pickle.dumps(task))
    assert [test.args for test in again.written_tests] == [(1,), (2,)]
    assert len(again.written_tests) == 2 and again.written_tests[1].split == "hidden"
    assert task_digest(again) == task_digest(load_task(path))


def test_a_reference_loads_the_same_task_from_anywhere(tmp_path, monkeypatch):
    write(tmp_path, "mine"), write(tmp_path, "two_sum_pairs")
    monkeypatch.chdir(tmp_path)
    tasks = load_tasks(["./mine", "./two_sum_pairs", "circle_packing:n=29"])
    tasks += load_tasks(["two_sum_pairs", "library:open"])
    os.chdir("/")
    for task in tasks:
        again = load_task(task_ref(task))
        assert (again.name, again.folder, task_digest(again)) == (task.name, task.folder, task_digest(task))
    assert task_ref(tasks[2]) == "circle_packing:n=29" and task_ref(tasks[3]) == "two_sum_pairs"
