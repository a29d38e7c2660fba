"""What the end of a search leaves on the disk and says, also where something refuses."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from coevo.cli.ending import failed, whole
from coevo.config import parse
from coevo.errors import ConfigError, StoreError
from coevo.evaluation.types import Failure, Outcome
from coevo.evolution.records import Summary
from coevo.evolution.settings import SearchConfig
from coevo.programs import Program
from coevo.runs import Run


@pytest.fixture
def run(tmp_path: Path):
    with Run.create(tmp_path / "run", kind="evolve", config={}) as made:
        yield made


def test_a_file_that_cannot_be_written_whole_leaves_the_old_one(run: Run) -> None:
    best = run.artifacts / "best.py"
    best.write_text("old")

    def fill_up() -> None:
        with whole(run, best) as part:
            part.write_text("ha")
            raise OSError(errno.ENOSPC, "No space left on device")

    with pytest.raises(StoreError, match=r"cannot write .*best\.py: No space.*coevo resume"):
        fill_up()
    assert [(p.name, p.read_text()) for p in run.artifacts.iterdir()] == [("best.py", "old")]


def test_where_no_file_can_be_it_says_so(run: Run) -> None:
    run.artifacts.rmdir()
    run.artifacts.write_text("in the way")
    with pytest.raises(StoreError, match="cannot write"), whole(run, run.artifacts / "result.json") as part:
        part.write_text("x")


def test_a_new_program_of_several_files_leaves_none_of_the_old_one(run: Run) -> None:
    for files in ({"program.py": "a = 1\n", "extra.py": "b = 2\n"}, {"program.py": "a = 3\n", "other.py": "c = 4\n"}):
        with whole(run, run.artifacts / "best") as part:
            Program.of(files).write(part)
        assert {p.name: p.read_text() for p in (run.artifacts / "best").iterdir()} == files
    assert [p.name for p in run.artifacts.iterdir()] == ["best"]


def test_a_program_without_a_value_says_why() -> None:
    assert failed(None) is None and failed(Summary(Outcome.SCORED, 1.0)) is None
    crashed = Summary(Outcome.FAILED, -1.0, failure=Failure.CRASH, reason="ValueError:\n x")
    assert failed(crashed) == "crash: ValueError: x"
    assert failed(Summary(Outcome.UNMEASURED, reason="no machine")) == "unmeasured: no machine"


def test_settings_that_contradict_each_other_are_one_plain_sentence() -> None:
    with pytest.raises(ConfigError, match=r"^here: population = 1 is fewer than islands = 4"):
        parse(SearchConfig, {"population": 1}, where="here")
