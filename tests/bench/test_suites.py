"""Splits that are apart, and the ways in which they might not be."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from coevo.bench.suites import SuiteConfig, load_suite, tasks_of
from coevo.errors import ConfigError, GateBlocked
from coevo.mini.families import SEEN, UNSEEN
from coevo.mini.tasks import write_tasks

LONG = (
    "Given a list of trains with arrival and departure times, return how many platforms the station needs at the least"
)


def put(folder: Path, name: str, *, statement: str = "", answer: str = "return x + 1", family: str = "") -> str:
    """A small function task."""
    path = folder / name
    path.mkdir(parents=True)
    tags = f"tags: ['family:{family}']\n" if family else ""
    (path / "task.yaml").write_text(
        f"name: {name}\nkind: function\nentry: f\nstatement: |\n  Write f(x) of {name}. {statement}\n{tags}"
    )
    (path / "program.py").write_text("def f(x):\n    return x\n")
    (path / "reference.py").write_text(f"def f(x):\n    {answer}\n")
    tests = [f'{{"split": "{s}", "args": [{n}], "expected": {n + 1}}}\n' for s in ("public", "hidden") for n in (1, 2)]
    (path / "tests.jsonl").write_text("".join(tests))
    return str(path)


def test_mini_splits_are_apart_and_known_by_their_families() -> None:
    config = SuiteConfig(
        name="mini",
        train=("mini:train:6",),
        validation=("mini:validation:3",),
        test={"id": ("mini:test:3",), "ood": ("mini:unseen:4",)},
        ngram=None,
    )
    suite = load_suite(config)
    facts = suite.facts()
    assert [facts[name]["tasks"] for name in ("train", "validation", "id", "ood")] == [6, 3, 3, 4]
    assert set(facts["id"]["families"]) <= set(SEEN) and set(facts["ood"]["families"]) <= set(UNSEEN)
    assert facts["ood"]["unseen"] and not facts["id"]["unseen"] and suite.dropped == ()
    assert len({suite.digest(name) for name in suite.splits}) == 4 and len(suite.tasks) == 16


def test_the_digest_is_of_the_judges_not_of_the_order(tmp_path: Path) -> None:
    a, b = put(tmp_path, "a"), put(tmp_path, "b", answer="return x + 2")
    one, two = (load_suite(SuiteConfig(test={"id": refs}, unseen=())).digest("id") for refs in ((a, b), (b, a)))
    assert one == two
    (tmp_path / "b" / "tests.jsonl").write_text(
        '{"split": "public", "args": [1], "expected": 2}\n{"split": "hidden", "args": [1], "expected": 9}\n'
    )
    assert load_suite(SuiteConfig(test={"id": (a, b)}, unseen=())).digest("id") != one


@pytest.mark.parametrize(
    ("what", "train", "test"),
    [
        ("answer", {"answer": "return x + 1"}, {"answer": "return x + 1  # the same, with a comment"}),
        ("run of 13 words", {"statement": LONG, "answer": "return 0"}, {"statement": "Easy. " + LONG}),
        ("family", {"family": "trains", "answer": "return 0"}, {"family": "trains"}),
    ],
)
def test_what_two_splits_share_is_found(tmp_path: Path, what: str, train: dict[str, str], test: dict[str, str]) -> None:
    config = SuiteConfig(train=(put(tmp_path, "a", **train),), test={"ood": (put(tmp_path, "b", **test),)})
    with pytest.raises(GateBlocked, match=rf"a \(train\) and b \(ood\) have the same {what}") as e:
        load_suite(config)
    assert e.value.exit_code == 4


def test_a_copied_judge_under_another_name_is_found(tmp_path: Path) -> None:
    a = put(tmp_path / "x", "a")
    shutil.copytree(a, tmp_path / "y" / "a")
    with pytest.raises(GateBlocked, match="same name"):
        load_suite(SuiteConfig(train=(a,), test={"id": (str(tmp_path / "y" / "a"),)}, unseen=()))


def test_what_every_statement_says_is_no_overlap(tmp_path: Path) -> None:
    train = tuple(put(tmp_path, f"a{i}", statement=LONG, answer=f"return {i}") for i in range(3))
    test = put(tmp_path, "b", statement=LONG, answer="return 9")
    assert load_suite(SuiteConfig(train=train, test={"id": (test,)}, unseen=())).dropped == ()
    with pytest.raises(GateBlocked, match="run of 13 words"):
        load_suite(SuiteConfig(train=train, test={"id": (test,)}, unseen=(), boilerplate=5))


def test_overlaps_may_be_dropped_from_the_earlier_split(tmp_path: Path) -> None:
    train = (put(tmp_path, "a", answer="return 1"), put(tmp_path, "b", answer="return 2"))
    test = (put(tmp_path, "c", answer="return 2"),)
    suite = load_suite(SuiteConfig(train=train, test={"id": test}, unseen=(), overlap="drop"))
    assert [t.name for t in suite.splits["train"]] == ["a"] and [t.name for t in suite.splits["id"]] == ["c"]
    assert suite.dropped == ("b (train) and c (id) have the same answer",)
    with pytest.raises(GateBlocked, match="every task of 'train'"):
        load_suite(SuiteConfig(train=train[1:], test={"id": test}, unseen=(), overlap="drop"))


def test_limits_take_the_first_ones(tmp_path: Path) -> None:
    refs = tuple(put(tmp_path, f"a{i}", answer=f"return {i}") for i in range(4))
    suite = load_suite(SuiteConfig(test={"id": refs}, unseen=(), limit={"id": 2}))
    assert [t.name for t in suite.splits["id"]] == ["a0", "a1"]


@pytest.mark.parametrize("ref", ["mini:train", "mini:train:0", "mini:train:many", "mini:rain:3"])
def test_references_to_puzzles_that_cannot_be_meant(ref: str) -> None:
    with pytest.raises(ConfigError, match=ref):
        tasks_of([ref])


def test_splits_need_other_names_and_tasks(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="may not be called"):
        load_suite(SuiteConfig(test={"train": (put(tmp_path, "a"),)}))
    with pytest.raises(ConfigError, match="'id' of suite 'suite' has no tasks"):
        load_suite(SuiteConfig(test={"id": ()}))


def test_references_as_many_as_asked(tmp_path: Path) -> None:
    folders = write_tasks(tuple(SEEN), part="train", count=3, folder=tmp_path)
    assert [t.name for t in tasks_of(["mini:train:3"])] == [path.name for path in folders]
