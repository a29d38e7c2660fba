"""Loading: every mistake in a folder is named with its file, value and next step, and nothing of a folder is executed."""

import json
import shutil

import pytest

from coevo.errors import ConfigError, TaskError, UsageError
from coevo.tasks import list_tasks, load_task, task_digest
from coevo.tasks.loader import LIBRARY
from coevo.tasks.testfile import read_tests, write_tests
from coevo.tasks.types import Kind, Test

FUNCTION = {
    "task.yaml": "name: double\nkind: function\nentry: double\nstatement: Return twice the number.\n",
    "program.py": "def double(x):\n    return x + x\n",
    "tests.jsonl": '{"split": "public", "args": [2], "expected": 4}\n\n{"split": "hidden", "args": [-1], "expected": -2}\n',
}
STDIO = {
    "task.yaml": "name: echo\nkind: stdio\nstatement: Print the input.\n",
    "program.py": "print(input())\n",
    "tests.jsonl": '{"split": "public", "stdin": "a\\n", "stdout": "a\\n"}\n',
}
OPEN = {
    "task.yaml": "name: big\nkind: open\nentry: big\nstatement: Return a big number.\ninstances: {public: [{}]}\n",
    "program.py": "def big():\n    return 1\n",
    "score.py": "def score(output, instance):\n    return float(output)\n",
}
GENERATED = FUNCTION | {
    "task.yaml": FUNCTION["task.yaml"] + "tests: {public: {sizes: [1]}}\n",
    "generate.py": "def generate(size, rng):\n    return (size,)\n",
    "reference.py": "def double(x):\n    return 2 * x\n",
}


def folder(tmp_path, files, **changes):
    """A task folder with `files`; changes by name (dots as in file names, `None` removes)."""
    root = tmp_path / "task"
    root.mkdir(exist_ok=True)
    for name, text in (files | {key.replace("__", "/").replace("_py", ".py"): v for key, v in changes.items()}).items():
        target = root / name
        if text is None:
            target.unlink(missing_ok=True)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
    return root


def refusal(path):
    with pytest.raises(UsageError) as error:
        load_task(path)
    return str(error.value)


# --- what loads -----------------------------------------------------------------------------------------------


def test_a_folder_of_each_kind_loads(tmp_path):
    for kind, files in (("function", FUNCTION), ("stdio", STDIO), ("open", OPEN), ("generated", GENERATED)):
        root = tmp_path / kind
        root.mkdir()
        assert load_task(folder(root, files)).start.source == files["program.py"]


def test_tests_have_values_splits_and_names(tmp_path):
    task = load_task(folder(tmp_path, FUNCTION))
    assert task.written_tests == (
        Test("public", args=(2,), expected=4, name="line 1"),
        Test("hidden", args=(-1,), expected=-2, name="line 3"),
    )
    assert task.source_files == ("tests.jsonl",)


def test_programs_of_several_files(tmp_path):
    files = FUNCTION | {
        "program.py": None,
        "program/program.py": "from part.sums import double\n",
        "program/part/__init__.py": "",
        "program/part/sums.py": "def double(x):\n    return x + x\n",
    }
    task = load_task(folder(tmp_path, files))
    assert [name for name, _ in task.start.files] == ["part/__init__.py", "part/sums.py", "program.py"]


def test_loading_executes_nothing(tmp_path):
    bomb = "raise SystemExit('executed')\n"
    files = {name: text + bomb if name.endswith(".py") else text for name, text in GENERATED.items()}
    assert load_task(folder(tmp_path, files)).name == "double"


def test_a_path_a_name_and_a_shadowed_name(tmp_path, monkeypatch):
    root = folder(tmp_path, FUNCTION)
    monkeypatch.chdir(tmp_path)
    assert load_task(root) == load_task("task") == load_task("./task") == load_task(str(root))
    (tmp_path / "inversions").mkdir()
    shutil.copytree(root, tmp_path / "inversions", dirs_exist_ok=True)
    assert load_task("inversions").folder.parent == LIBRARY
    assert load_task("./inversions").name == "double"


def test_names_are_bound_in_many_ways(tmp_path):
    for source in (
        "double = lambda x: x\n",
        "try:\n    from fast import double\nexcept ImportError:\n    def double(x): return x\n",
        "from os import path as double\n",
        "if True:\n    class double: pass\n",
        "double: object = print\n",
        "from parts import *\n",
    ):
        load_task(folder(tmp_path, FUNCTION, program_py=source))


# --- what does not --------------------------------------------------------------------------------------------


def test_unknown_names_get_a_suggestion(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "Did you mean 'inversions'?" in refusal("inversion")
    assert "coevo tasks list" in refusal("no such thing")
    assert "by nothing" in refusal(" ")
    assert "no task folder at" in refusal(tmp_path / "absent")
    (tmp_path / "empty").mkdir()
    assert "task.yaml" in refusal("./empty") and "coevo tasks new" in refusal("./empty")


def test_odd_references_are_refused_not_crashed_on(tmp_path):
    for ref in ("x" * 5000, "a/" + "x" * 5000, "a\0b", "./a\0b", ":", ":n=3", "~no-such-user/x", "inversions:"):
        if ref == "inversions:":
            assert load_task(ref).name == "inversions"
        else:
            assert refusal(ref)


def test_links_to_folders_are_refused(tmp_path):
    root = folder(tmp_path, FUNCTION)
    (root / "loop").symlink_to(root)
    assert "loop is a link to a folder" in refusal(root)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("kind: function", ["unknown setting 'kinds'", "Did you mean 'kind'?"]),
        ("entry: double\n", ["entry", "missing", "program.py"]),
        ("name: double", ["name = 'Two Words'"]),
    ],
)
def test_config_mistakes_name_file_and_key(tmp_path, change, words):
    new = {"kind: function": "kinds: function", "entry: double\n": "", "name: double": "name: Two Words"}[change]
    message = refusal(folder(tmp_path, FUNCTION | {"task.yaml": FUNCTION["task.yaml"].replace(change, new)}))
    assert "task.yaml" in message and all(word in message for word in words)


def test_reserved_kinds_say_that_they_come_later(tmp_path):
    for kind in ("math", "repo"):
        text = FUNCTION["task.yaml"].replace("kind: function", f"kind: {kind}")
        assert "comes later" in refusal(folder(tmp_path, FUNCTION | {"task.yaml": text}))
    text = FUNCTION["task.yaml"].replace("kind: function", "kind: openevolve")
    assert "evaluator.py" in refusal(folder(tmp_path, FUNCTION | {"task.yaml": text}))


def test_broken_yaml_names_the_line(tmp_path):
    message = refusal(folder(tmp_path, FUNCTION | {"task.yaml": "name: x\nkind: [function\n"}))
    assert "task.yaml" in message and "line 3" in message
    assert "UTF-8" in refusal_of_bytes(tmp_path, "task.yaml")


def refusal_of_bytes(tmp_path, name):
    root = folder(tmp_path, FUNCTION)
    (root / name).write_bytes(b"\xff\xfe\x00")
    return refusal(root)


def test_programs_that_cannot_be(tmp_path):
    assert "does not define 'double'" in refusal(folder(tmp_path, FUNCTION, program_py="def twice(x): return x\n"))
    assert "it defines nothing" in refusal(folder(tmp_path, FUNCTION, program_py="\n"))
    assert "program.py:2: not valid Python" in refusal(folder(tmp_path, FUNCTION, program_py="x = 1\ndef double(:\n"))
    assert "not valid Python" in refusal(folder(tmp_path, FUNCTION, program_py="x = '\0'\n"))
    assert "no program.py" in refusal(folder(tmp_path, FUNCTION, program_py=None))
    assert "UTF-8" in refusal_of_bytes(tmp_path, "program.py")
    both = folder(tmp_path, FUNCTION | {"program/program.py": "def double(x): return x\n"})
    assert "both program.py and program/" in refusal(both)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("{", "not valid JSON (column 2"),
        ("[1]", "each line is one object"),
        ('{"args": [1], "expected": 2}', "'split' is missing"),
        ('{"split": "public", "args": [1]}', "'expected' is missing"),
        ('{"split": "secret", "args": [1], "expected": 2}', "split is 'secret'; write one of public, hidden"),
        ('{"split": "public", "args": 1, "expected": 2}', "args is a int; write the list of arguments"),
        ('{"split": "public", "args": [1], "kwargs": [], "expected": 2}', "kwargs is a list"),
        ('{"split": "public", "args": [1], "expectd": 2, "expected": 2}', "unknown key 'expectd'"),
        ('{"split": "public", "args": [1], "expected": NaN}', 'write {"$float": "nan"}'),
        ('{"split": "public", "args": [{"$tuple": 1}], "expected": 2}', "args: $tuple: takes a list"),
        ('{"split": "public", "split": "hidden", "args": [1], "expected": 2}', "'split' stands twice"),
        ('{"split": "public", "args": [1], "expected": 2, "name": ""}', "name is ''"),
        ('{"split": "public", "args": [1], "expected": 2, "name": "line 1"}', "already used in line 1"),
        ('{"split": "public", "args": ' + "[" * 100_000 + ', "expected": 2}', "nested too deeply"),
        ('{"split": "public", "args": [' + "9" * 5000 + '], "expected": 2}', '5,000 digits; write {"$int"'),
    ],
)
def test_broken_test_lines_name_the_line(tmp_path, line, words):
    message = refusal(folder(tmp_path, FUNCTION | {"tests.jsonl": FUNCTION["tests.jsonl"] + line + "\n"}))
    assert "tests.jsonl:4: " in message and words in message


def test_stdio_tests_hold_text(tmp_path):
    message = refusal(folder(tmp_path, STDIO | {"tests.jsonl": '{"split": "public", "stdin": 3, "stdout": ""}\n'}))
    assert "tests.jsonl:1" in message and "stdin is a int" in message
    message = refusal(folder(tmp_path, STDIO | {"tests.jsonl": '{"split": "public", "args": [], "expected": 1}\n'}))
    assert "a test of kind stdio has split, stdin, stdout" in message
    assert "UTF-8" in refusal_of_bytes(tmp_path, "tests.jsonl")


@pytest.mark.parametrize(
    ("files", "changes", "words"),
    [
        (FUNCTION, {"tests.jsonl": None}, "no public test"),
        (FUNCTION, {"tests.jsonl": '{"split": "hidden", "args": [1], "expected": 2}\n'}, "no public test"),
        (FUNCTION, {"score.py": "def score(): ..."}, "score.py does not belong to kind function"),
        (FUNCTION, {"baseline.py": "def double(x): ..."}, "baseline.py does not belong to kind function"),
        (FUNCTION, {"checker.py": "def check(): ..."}, "checker.py is never used"),
        (FUNCTION, {"task.yaml": FUNCTION["task.yaml"] + "checker: {name: custom}\n"}, "needs checker.py"),
        (FUNCTION, {"task.yaml": FUNCTION["task.yaml"] + "direction: max\n"}, "direction is for kind open"),
        (FUNCTION, {"task.yaml": FUNCTION["task.yaml"] + "timing: {size: 3}\n"}, "timing needs generate.py"),
        (
            FUNCTION,
            {"task.yaml": FUNCTION["task.yaml"].replace("entry: double", "entry: a b")},
            "not the name of a function",
        ),
        (GENERATED, {"generate.py": None}, "tests needs generate.py"),
        (GENERATED, {"generate.py": "def make(): ..."}, "does not define generate; it defines make"),
        (GENERATED, {"generate.py": "def generate(:"}, "generate.py:1: not valid Python"),
        (GENERATED, {"reference.py": None}, "no reference.py"),
        (GENERATED, {"reference.py": "x = 1\n"}, "reference.py does not define 'double'"),
        (GENERATED, {"task.yaml": FUNCTION["task.yaml"]}, "generate.py is never used"),
        (STDIO, {"task.yaml": STDIO["task.yaml"] + "entry: main\n"}, "kind stdio runs the whole script"),
        (OPEN, {"score.py": None}, "no score.py"),
        (OPEN, {"score.py": "x = 1\n"}, "does not define score or score_all"),
        (OPEN, {"tests.jsonl": "{}\n"}, "remove it or change the kind"),
        (OPEN, {"reference.py": "def big(): ..."}, "reference.py does not belong to kind open"),
        (
            OPEN,
            {"task.yaml": OPEN["task.yaml"].replace("instances: {public: [{}]}\n", "")},
            "nothing to call the entry with",
        ),
        (OPEN, {"task.yaml": OPEN["task.yaml"] + "timing: {size: 3}\n"}, "timing is for kinds function and stdio"),
        (OPEN, {"draw.py": "x = 1\n"}, "does not define draw"),
    ],
)
def test_contradictions_are_named(tmp_path, files, changes, words):
    assert words in refusal(folder(tmp_path, files | changes))


# --- digest ---------------------------------------------------------------------------------------------------


def test_the_digest_covers_what_judges(tmp_path):
    root = folder(tmp_path, GENERATED | {"data/table.csv": "1\n", "README.md": "hello\n"})
    before = task_digest(load_task(root))
    assert before == task_digest(load_task(root)) and len(before) == 64
    seen = {before}
    for name, text in (
        ("generate.py", "def generate(size, rng):\n    return (size + 1,)\n"),
        ("reference.py", "def double(x):\n    return x * 2\n"),
        ("program.py", "def double(x):\n    return 2 * x\n"),
        ("tests.jsonl", FUNCTION["tests.jsonl"].replace("-1", "-3").replace("-2", "-6")),
        ("data/table.csv", "2\n"),
        ("task.yaml", GENERATED["task.yaml"] + "limits: {cpu_s: 3}\n"),
    ):
        (root / name).write_text(text)
        seen.add(task_digest(load_task(root)))
    assert len(seen) == 7


def test_the_digest_ignores_what_does_not(tmp_path):
    root = folder(tmp_path, GENERATED)
    before = task_digest(load_task(root))
    (root / "README.md").write_text("words")
    (root / "task.yaml").write_text("# a comment\n" + GENERATED["task.yaml"])
    (root / "__pycache__").mkdir()
    (root / "__pycache__" / "generate.pyc").write_bytes(b"x")
    assert task_digest(load_task(root)) == before
    moved = tmp_path / "elsewhere"
    shutil.move(root, moved)
    assert task_digest(load_task(moved)) == before


def test_written_tests_come_back(tmp_path):
    tests = (
        Test("public", args=((1, 2), {3: "x"}), kwargs={"key": b"\0"}, expected={1, 2}, name="one"),
        Test("hidden", args=(), expected=float("inf"), name="two"),
    )
    write_tests(tmp_path / "t.jsonl", tests, Kind.FUNCTION)
    assert read_tests(tmp_path / "t.jsonl", Kind.FUNCTION) == tests
    assert all(json.loads(line) for line in (tmp_path / "t.jsonl").read_text().splitlines())


def test_every_shipped_task_loads():
    names = list_tasks()
    assert names == sorted(set(names)) and len(names) >= 34
    for name in names:
        assert load_task(name).config.statement


def test_config_errors_are_config_errors(tmp_path):
    with pytest.raises(ConfigError):
        load_task(folder(tmp_path, FUNCTION | {"task.yaml": "name: double\n"}))
    with pytest.raises(TaskError):
        load_task(folder(tmp_path, FUNCTION | {"task.yaml": FUNCTION["task.yaml"], "program.py": "\n"}))
