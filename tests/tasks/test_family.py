"""Families: one folder, many tasks. References carry parameters; texts, instances and best known values follow."""

import pytest

from coevo.errors import UsageError
from coevo.tasks import load_task, task_digest

TASK = """
name: squares
title: "{n} squares in {dim}"
kind: open
entry: place
statement: "Place {n} squares; keep {other} and {{n}} as they are."
parameters:
  n: {default: 3, min: 1, max: 9}
  dim: {default: 2, min: 2, max: 3}
instances:
  public: [{n: "{n}", nested: {list: ["{dim}", "{n} apples"]}}]
best_known_table:
  dim=2,n=3: {value: 1.5, source: somewhere}
  dim=3,n=4: {value: 2.5, source: elsewhere}
"""


@pytest.fixture
def family(tmp_path):
    root = tmp_path / "squares"
    root.mkdir()
    (root / "task.yaml").write_text(TASK)
    (root / "program.py").write_text("def place(n, nested):\n    return n\n")
    (root / "score.py").write_text("def score(output, instance):\n    return 1.0\n")
    return root


def refusal(ref):
    with pytest.raises(UsageError) as error:
        load_task(ref)
    return str(error.value)


def test_defaults_and_given_values(family):
    plain, given = load_task(family).config, load_task(f"{family}:dim=3,n=4").config
    assert plain.name == "squares:n=3,dim=2" and given.name == "squares:n=4,dim=3"
    assert given.title == "4 squares in 3"
    assert given.statement == "Place 4 squares; keep {other} and {4} as they are."
    assert given.instances == {"public": [{"n": 4, "nested": {"list": [3, "{n} apples"]}}]}
    assert plain.best_known is not None and plain.best_known.value == 1.5
    assert given.best_known is not None and given.best_known.value == 2.5
    assert load_task(f"{family}:n=5").config.best_known is None
    assert not given.parameters and not given.best_known_table


def test_members_are_different_tasks_and_spelling_does_not_matter(family):
    digests = {task_digest(load_task(f"{family}:n={n}")) for n in range(1, 10)}
    assert len(digests) == 9
    assert task_digest(load_task(f"{family}:dim=2,n=3")) == task_digest(load_task(family)) in digests
    assert load_task(f"{family}: n = 4 , dim = 2").name == "squares:n=4,dim=2"


def test_mistakes_are_named(family):
    assert "Did you mean 'dim'?" in refusal(f"{family}:dims=2")
    assert "n goes from 1 to 9" in refusal(f"{family}:n=10")
    assert "not a whole number" in refusal(f"{family}:n=2.5")
    for text in ("n", "n=", "=3", "n=3,n=4", "n=3,,dim=2"):
        assert "write name=value" in refusal(f"{family}:{text}")
    assert "has no parameters" in refusal("inversions:n=3")


def test_mistakes_of_the_author_are_named(family):
    config = family / "task.yaml"
    config.write_text(TASK.replace("default: 3, min: 1", "default: 30, min: 1"))
    assert "default 30 is not within 1 to 9" in refusal(family)
    config.write_text(TASK.replace("dim=3,n=4:", "n=4:"))
    assert "'n=4' names no member" in refusal(family) and "'dim=2,n=3'" in refusal(family)
    config.write_text(TASK.replace("  n: {default", "  N: {default"))
    assert "'N' is no name" in refusal(family)


def test_an_alias_is_another_name(family, tmp_path):
    other = tmp_path / "four"
    other.mkdir()
    (other / "task.yaml").write_text(f"alias: {family}:n=4\n")
    assert load_task(other) == load_task(f"{family}:n=4")
    assert "takes no parameters" in refusal(f"{other}:n=5")
    (other / "task.yaml").write_text(f"alias: {other}\n")
    assert "leads to another alias" in refusal(other)
    (other / "task.yaml").write_text("alias: no_such_task\n")
    assert "unknown task 'no_such_task'" in refusal(other)
    (other / "task.yaml").write_text("alias: inversions\nkind: open\n")
    assert "unknown setting 'kind'" in refusal(other)
