"""Versions: every one that was ever released opens; a newer one is left alone; migrations are all or nothing."""

from __future__ import annotations

import math
import shutil
import sqlite3
from pathlib import Path

import pytest

from coevo.errors import RunTooNew, StoreError
from coevo.runs import Run, State, schema
from coevo.runs.check import problems

FIXTURES = Path(__file__).parent / "fixtures"
DIGESTS = {"v1": "1e364cf7fc8c22c60e20a9e638db2fbe90077cb55819a20a6657dbc716b3fe18"}


@pytest.fixture(params=sorted(DIGESTS))
def old(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Path]:
    path = tmp_path / "old"
    shutil.copytree(FIXTURES / request.param, path)
    return request.param, path


def test_every_version_has_its_fixture() -> None:
    assert sorted(DIGESTS) == sorted(p.name for p in FIXTURES.iterdir()) == [f"v{n + 1}" for n in range(schema.SCHEMA)]


def test_an_old_run_reads_as_it_was(old: tuple[str, Path]) -> None:
    version, path = old
    before = (path / "run.db").read_bytes()
    with Run.open(path, write=False) as run:
        assert run.digest() == DIGESTS[version]
        assert run.state() is State.STOPPED and run.config == {"task": "packing", "seed": 7}
        assert [e.step for e in run.events(kinds=["step"])] == [0, 1, 2]
        first = next(run.programs())
        assert first.source.endswith("+ 0\n") and dict(first.files)["lib.py"] == "g = int\n"
        assert run.evaluation(first.id, split="public", seed=2**63) == {"outcome": "scored", "fitness": 0.0}
        reply = run.completion("step-1")
        assert reply is not None and reply["text"] == "reply 1 \ud800" and reply["logprobs"] == [-math.inf, -0.5]
        assert run.ledger.spent()["tokens"] == 600 and run.ledger.remaining()["evaluations"] == 7
    assert (path / "run.db").read_bytes() == before


def test_an_old_run_goes_on(old: tuple[str, Path]) -> None:
    _, path = old
    with Run.open(path, write=True) as run:
        assert run.ledger.spent()["usd"] == pytest.approx(0.023)  # What was in flight is counted as lost.
        run.append("step", {"program": "none"}, step=3)
        assert problems(run) == []
    with Run.open(path, write=True) as run:
        assert schema.version_of(run.connection) == schema.SCHEMA


def test_a_newer_run_is_left_alone(old: tuple[str, Path]) -> None:
    _, path = old
    db = sqlite3.connect(path / "run.db")
    db.execute(f"PRAGMA user_version = {schema.SCHEMA + 5}")
    db.close()
    before = (path / "run.db").read_bytes()
    for write in (True, False):
        with pytest.raises(RunTooNew, match=r"newer coevo.*Nothing was changed.*pip install -U"):
            Run.open(path, write=write)
    assert (path / "run.db").read_bytes() == before


@pytest.fixture
def empty(tmp_path: Path):
    conn = schema.build(tmp_path / "db")
    yield conn
    conn.close()


def test_migrations_run_in_order(empty: sqlite3.Connection) -> None:
    chain = {
        1: lambda conn: conn.execute("ALTER TABLE programs ADD COLUMN note TEXT"),
        2: lambda conn: conn.execute("UPDATE programs SET note = 'from 2'"),
    }
    assert schema.migrate(empty, target=3, migrations=chain) == [1, 2]
    assert schema.version_of(empty) == 3
    assert schema.migrate(empty, target=3, migrations=chain) == []
    with pytest.raises(RunTooNew):
        schema.migrate(empty, target=2, migrations=chain)


def test_a_failing_migration_changes_nothing(empty: sqlite3.Connection) -> None:
    chain = {
        1: lambda conn: conn.execute("ALTER TABLE programs ADD COLUMN note TEXT"),
        2: lambda conn: conn.execute("UPDATE nothing SET note = 1"),
    }
    with pytest.raises(sqlite3.OperationalError):
        schema.migrate(empty, target=3, migrations=chain)
    assert schema.version_of(empty) == 1
    assert "note" not in [row[1] for row in empty.execute("PRAGMA table_info(programs)")]
    with pytest.raises(StoreError, match="no migration from 2"):
        schema.migrate(empty, target=3, migrations={1: chain[1]})


def test_a_foreign_database_is_named(tmp_path: Path) -> None:
    db = sqlite3.connect(tmp_path / "run.db")
    db.execute("CREATE TABLE t (x)")
    db.commit()
    db.close()
    with pytest.raises(StoreError, match="not written by coevo"):
        Run.open(tmp_path, write=False)
