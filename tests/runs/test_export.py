"""Tables as files for other tools, and the status of a run."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import pytest

from coevo.errors import ConfigError, StoreError, UsageError
from coevo.programs import Program
from coevo.runs import Budget, Run, State, parse_budget
from coevo.runs.export import COLUMNS, TABLES, export, rows
from coevo.runs.status import resume_command, status_of
from tests.runs.conftest import Create, program, write_step


@pytest.fixture
def run(make: Create) -> Run:
    run = make(seed=1)
    for i in range(5):
        write_step(run, i)
    odd = Program.of({"program.py": "x = '\ud800'\n", "b.py": "y = 1\n"})
    with run.transaction():
        run.put_program(odd)
        run.put_evaluation(
            odd.id, split="hidden", seed=2**64 - 1, payload={"fitness": 1, "score": math.nan, "outcome": "scored"}
        )
        run.append("step", {"program": odd.id}, step=5)
    run.put_rollouts([{"task": "t", "split": "train", "reward": 0.5, "group": 3}])
    return run


def strict(text: str) -> dict:
    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    return json.loads(text, parse_constant=refuse)


@pytest.mark.parametrize("table", TABLES)
def test_jsonl_holds_every_row(run: Run, tmp_path: Path, table: str) -> None:
    target = tmp_path / "out" / f"{table}.jsonl"
    count = export(run, table, target)
    lines = [strict(line) for line in target.read_text().splitlines()]
    assert count == len(lines) == run.counts()["evaluations" if table == "candidates" else table]
    assert [p.name for p in target.parent.iterdir()] == [target.name]


def test_jsonl_of_candidates_joins_program_and_evaluation(run: Run, tmp_path: Path) -> None:
    export(run, "candidates", tmp_path / "c.jsonl")
    lines = [strict(line) for line in (tmp_path / "c.jsonl").read_text().splitlines()]
    assert [line["source"] for line in lines[:5]] == [program(i).source for i in range(5)]
    assert lines[2]["fitness"] == 2 / 7 and lines[2]["split"] == "public" and lines[2]["program_id"] == program(2).id
    assert lines[5]["files"]["b.py"] == "y = 1\n" and lines[5]["seed"] == 2**64 - 1
    assert lines[5]["score"] == {"$number": "nan"}


@pytest.mark.parametrize("table", TABLES)
def test_parquet_holds_every_row(run: Run, tmp_path: Path, table: str) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    count = export(run, table, tmp_path / f"{table}.parquet")
    found = pq.read_table(tmp_path / f"{table}.parquet")
    assert found.num_rows == count == len(list(rows(run, table))) and found.column_names == list(COLUMNS[table])
    assert all(strict(text) for text in found["payload"].to_pylist())


def test_parquet_columns_have_their_values(run: Run, tmp_path: Path) -> None:
    pq = pytest.importorskip("pyarrow.parquet")
    export(run, "candidates", tmp_path / "c.parquet")
    found = pq.read_table(tmp_path / "c.parquet").to_pylist()
    assert found[3]["fitness"] == 3 / 7 and found[3]["score"] is None and found[3]["source"] == program(3).source
    assert found[5]["seed"] == str(2**64 - 1) and math.isnan(found[5]["score"]) and found[5]["source"] == "x = '?'\n"
    export(run, "events", tmp_path / "e.parquet")
    events = pq.read_table(tmp_path / "e.parquet").to_pylist()
    assert events[0]["kind"] == "run.created" and events[0]["step"] is None and events[1]["step"] == 0
    assert strict(events[1]["payload"])["program"] == program(0).id


def test_a_large_export_is_streamed_whole(make: Create, tmp_path: Path) -> None:
    run = make("large")
    with run.transaction():
        for i in range(3501):
            run.append("note", {"i": i})
    for ending in ("jsonl", "parquet"):
        assert export(run, "events", tmp_path / f"e.{ending}") == 3502


def test_what_cannot_be_exported_is_named(run: Run, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"unknown table 'program'\. Did you mean 'programs'"):
        export(run, "program", tmp_path / "x.jsonl")
    with pytest.raises(ConfigError, match="unknown export format 'csv'"):
        export(run, "programs", tmp_path / "x.csv")
    with pytest.raises(UsageError, match="cannot tell the format"):
        export(run, "programs", tmp_path / "x")
    assert export(run, "programs", tmp_path / "x", format="jsonl") == 6


def test_an_export_that_fails_leaves_the_old_file(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "out.jsonl"
    target.write_text("old")
    run.connection.execute("UPDATE programs SET files = zeroblob(5) WHERE row = 4")
    with pytest.raises(StoreError, match=r"source of program .* is damaged"):
        export(run, "programs", target)
    assert target.read_text() == "old" and sorted(p.name for p in tmp_path.iterdir()) == ["out.jsonl", "run"]
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"cannot write .*The run itself is untouched"):
        export(run, "events", tmp_path / "file" / "x.jsonl")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ConfigError, match=r"coevo\[parquet\]"):
        export(run, "events", tmp_path / "e.parquet")


def test_status_of_a_running_and_a_stopped_run(make: Create, tmp_path: Path) -> None:
    run = make(budget=parse_budget("evaluations=3,usd=0.5"))
    write_step(run, 0)
    with Run.open(tmp_path / "run", write=False) as reader:
        status = strict(json.dumps(status_of(reader), allow_nan=False))
        assert status["state"] == "running" and status["by"].startswith("process ") and status["resume"] is None
        assert status["budget"]["evaluations"] == {"limit": 3, "spent": 1, "remaining": 2}
        assert status["budget"]["tokens"] == {"limit": None, "spent": 10, "remaining": None}
        assert status["counts"]["programs"] == 1 and status["last_activity"] >= status["created"]
    run.close()
    with Run.open(tmp_path / "run", write=False) as reader:
        status = status_of(reader)
        assert status["state"] == "interrupted" and status["resume"] == f"coevo resume {tmp_path / 'run'}"
    with Run.open(tmp_path / "run", write=True) as run:
        write_step(run, 1)
        write_step(run, 2)
        run.mark(State.STOPPED, by="budget: evaluations")
        assert status_of(run)["by"] == "budget: evaluations"
        assert resume_command(run).endswith("--budget evaluations=6,usd=0.5")


def test_the_command_that_continues_survives_a_shell(make: Create) -> None:
    assert resume_command(make("my run")).endswith("my run'")
    assert Budget(evaluations=6, usd=0.5) == parse_budget("evaluations=6,usd=0.5")
