"""The store: what goes in comes out, whole or not at all, by one writer, named by events that never change."""

from __future__ import annotations

import math
import os
import sqlite3
import tempfile
import threading
import time
from pathlib import Path

import psutil
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from coevo.errors import RunLocked, StoreError, UsageError
from coevo.programs import Program
from coevo.runs import Budget, Run, State
from coevo.runs.check import problems
from tests.runs.conftest import MEMORY, Create, program, write_step


def test_a_run_is_a_folder_people_can_read(make: Create, tmp_path: Path) -> None:
    config = {
        "task": "packing",
        "seed": 3,
        "nested": {"rate": 1e-5, "names": ["a", "é\ud800"], "none": None},
        "x": math.inf,
    }
    run = make(**config)
    assert run.kind == "evolve" and run.config == config and run.artifacts.is_dir()
    text = (tmp_path / "run" / "run.yaml").read_text()
    assert yaml.safe_load(text) == config and text.startswith("#")
    run.close()
    assert sorted(p.name for p in (tmp_path / "run").iterdir()) == ["artifacts", "run.db", "run.lock", "run.yaml"]
    with Run.open(tmp_path / "run", write=True) as again:
        assert again.config == config and again.kind == "evolve" and again.meta["created"] > 0


@pytest.mark.parametrize("name", [b"sp ace?#%25&'", "\u6f22\u5b57".encode(), b"not utf-8 \xff", b"n" * 250])
def test_a_folder_may_have_any_name(tmp_path: Path, name: bytes) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name))
    with Run.create(path, kind="evolve", config={}) as run:
        write_step(run, 1)
    for write in (False, True):
        with Run.open(path, write=write) as run:
            assert run.counts()["programs"] == 1 and problems(run) == []


def test_everything_comes_back(make: Create, tmp_path: Path) -> None:
    run = make()
    many = Program.of({"program.py": "import a.b\n", "a/b.py": "x = '\ud800\0'\r\n# é\n"})
    with run.transaction():
        assert run.put_program(many) and not run.put_program(many)
        assert run.put_evaluation(many.id, split="hidden", seed=2**64 - 1, payload={"fitness": math.nan, "tests": [1]})
        assert run.put_completion("step-1", {"text": "\ud800"})
        run.append("step", {"of": [many.id], "reply": "step-1", "gain": -math.inf}, step=1)
    run.close()
    with Run.open(tmp_path / "run", write=False) as run:
        assert run.program(many.id) == many and run.program(many.id).id == many.id and list(run.programs()) == [many]
        assert run.has_program(many.id) and not run.has_program("0" * 16)
        evaluation = run.evaluation(many.id, split="hidden", seed=2**64 - 1)
        assert evaluation is not None and math.isnan(evaluation["fitness"]) and evaluation["tests"] == [1]
        assert [row[:3] for row in run.evaluations(many.id)] == [(many.id, "hidden", 2**64 - 1)]
        assert run.evaluation(many.id, split="public", seed=2**64 - 1) is None and run.completion("step-2") is None
        assert run.completion("step-1") == {"text": "\ud800"} and list(run.completions()) == [
            ("step-1", {"text": "\ud800"})
        ]
        event = next(iter(run.events(kinds=["step"])))
        assert (event.step, event.payload["gain"]) == (1, -math.inf) and run.last_event() == event
        with pytest.raises(StoreError, match="no program 'feed'"):
            run.program("feed")


def test_events_are_read_in_order_page_by_page(make: Create) -> None:
    run = make()
    with run.transaction():
        ids = [run.append("ab"[i % 2], {"i": i}, step=i) for i in range(1203)]
    assert [e.id for e in run.events()][1:] == ids and ids == list(range(2, 1205))
    assert [e.payload["i"] for e in run.events(after=ids[1200])] == [1201, 1202]
    assert [e.payload["i"] for e in run.events(kinds=["a"])] == list(range(0, 1203, 2))
    assert [e.payload["i"] for e in run.events(kinds=["b", "a"])] == list(range(1203))
    assert list(run.events(kinds=[])) == [] and list(run.events(kinds=["other"])) == []
    walk = run.events(kinds=["a", "b"])
    next(walk)
    run.append("a", {"i": -1})  # Reading goes on while writing does.
    assert [e.payload["i"] for e in walk][-1] == -1


def test_events_never_change(make: Create, tmp_path: Path) -> None:
    run = make()
    write_step(run, 1)
    other = sqlite3.connect(tmp_path / "run" / "run.db")
    for attack in (
        "UPDATE events SET kind = 'x'",
        "DELETE FROM events",
        "REPLACE INTO events (id, ts, kind, payload) VALUES (1, 0, 'x', '{}')",
        "INSERT OR REPLACE INTO events (id, ts, kind, payload) VALUES (1, 0, 'x', '{}')",
    ):
        for connection in (run.connection, other):
            with pytest.raises(sqlite3.IntegrityError, match="append-only"):
                connection.execute(attack)
            connection.rollback()
    other.close()
    assert [e.kind for e in run.events()] == ["run.created", "step"]


def test_kinds_of_the_run_itself_are_reserved(make: Create) -> None:
    for kind in ("run.finished", "run.", ""):
        with pytest.raises(UsageError, match="the run's own"):
            make(f"r{len(kind)}").append(kind, {})


@pytest.mark.parametrize("what", ["program", "evaluation", "completion"])
def test_a_row_no_event_names_is_refused(make: Create, what: str) -> None:
    run, child = make(), program(1)

    def put(named: str) -> None:
        with run.transaction():
            if what == "program":
                run.put_program(child)
            elif what == "evaluation":
                run.put_evaluation(child.id, split="public", seed=0, payload={})
            else:
                run.put_completion('key "1"', {})
            run.append("step", {"names": named})

    with pytest.raises(StoreError, match="without an event that names it"):
        put("something else")
    assert sum(run.counts().values()) == 1  # Nothing of it was stored, the event neither.
    put('key "1"' if what == "completion" else child.id)
    assert sum(run.counts().values()) == 3 and problems(run) == []


def test_the_first_evaluation_stays_unless_replaced(make: Create) -> None:
    run, child = make(), program(1)
    with run.transaction():
        run.append("step", {"program": child.id, "reply": "k"})
        for payload, replace, stored in (({"a": 1}, False, True), ({"a": 2}, False, False), ({"a": 3}, True, True)):
            assert run.put_evaluation(child.id, split="public", seed=0, payload=payload, replace=replace) is stored
        assert run.put_completion("k", {"a": 1}) and not run.put_completion("k", {"a": 2})
    assert run.evaluation(child.id, split="public", seed=0) == {"a": 3} and run.completion("k") == {"a": 1}
    assert run.counts()["evaluations"] == 1


def test_all_or_nothing(make: Create) -> None:
    run = make()

    def fail(nested: bool) -> None:
        with run.transaction():
            write_step(run, 1)
            if nested:
                with run.transaction():
                    run.append("inner", {})
            raise ZeroDivisionError

    for nested in (False, True):
        with pytest.raises(ZeroDivisionError):
            fail(nested)
        assert run.counts() == {"events": 1, "programs": 0, "evaluations": 0, "completions": 0, "rollouts": 0}
        assert run.ledger.spent()["evaluations"] == 0 and run.ledger.held()["evaluations"] == 0
    write_step(run, 1)
    assert run.counts()["programs"] == 1


def test_half_a_failed_block_is_not_committed_by_the_block_around_it(make: Create) -> None:
    run = make()

    def swallow() -> None:
        with run.transaction():
            run.append("outer", {})
            try:
                with run.transaction():
                    run.append("inner", {})
                    raise ZeroDivisionError
            except ZeroDivisionError:
                pass

    with pytest.raises(StoreError, match="a part of its transaction had failed"):
        swallow()
    assert [e.kind for e in run.events()] == ["run.created"]


def test_what_is_not_plain_data_stores_nothing(make: Create) -> None:
    run = make()
    with pytest.raises(StoreError, match="set"):
        run.append("step", {"value": {1, 2}})
    assert run.counts()["events"] == 1


def test_one_writer_and_any_number_of_readers(make: Create, tmp_path: Path) -> None:
    run = make()
    with pytest.raises(RunLocked, match=rf"process {os.getpid()} on .*reading .* works"):
        Run.open(tmp_path / "run", write=True)
    with pytest.raises(StoreError, match="holds a run already"):
        Run.create(tmp_path / "run", kind="x", config={})
    readers = [Run.open(tmp_path / "run", write=False) for _ in range(3)]
    for i in range(3):
        write_step(run, i)
        assert all(reader.counts()["events"] == i + 2 and reader.state() is State.RUNNING for reader in readers)
    for reader in readers:
        for write in (lambda r=reader: r.append("x", {}), lambda r=reader: r.ledger.reserve("x", tokens=1)):
            with pytest.raises(StoreError, match="opened for reading"):
                write()
    run.close()
    assert readers[0].counts()["events"] == 4 and readers[0].state() is State.INTERRUPTED
    with Run.open(tmp_path / "run", write=True) as again:
        write_step(again, 9)
    assert readers[0].counts()["events"] == 6
    for reader in readers:
        reader.close()
    with pytest.raises(StoreError, match="is closed"):
        run.append("x", {})


def test_readers_that_look_who_writes_do_not_keep_a_writer_out(make: Create, tmp_path: Path) -> None:
    make().close()
    stop = threading.Event()

    def look() -> None:
        with Run.open(tmp_path / "run", write=False) as reader:
            while not stop.is_set():
                reader.state()

    threads = [threading.Thread(target=look) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(30):
            Run.open(tmp_path / "run", write=True).close()
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_threads_share_a_run(make: Create) -> None:
    run = make()

    def work(start: int) -> None:
        for i in range(start, start + 25):
            write_step(run, i)
            assert run.program(program(i).id).source == program(i).source

    threads = [threading.Thread(target=work, args=(100 * k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert run.counts()["programs"] == 100 and run.ledger.spent()["evaluations"] == 100 and problems(run) == []


def test_a_run_says_how_it_ended(make: Create, tmp_path: Path) -> None:
    run = make()
    with pytest.raises(UsageError, match="finished or stopped"):
        run.mark(State.RUNNING)
    run.mark(State.STOPPED, by="the user")
    assert run.state() is State.STOPPED
    run.close()
    with Run.open(tmp_path / "run", write=True) as run:
        assert run.state() is State.RUNNING
        run.mark(State.FINISHED)
    with Run.open(tmp_path / "run", write=False) as run:
        assert run.state() is State.FINISHED


@pytest.mark.parametrize(("error", "by"), [(KeyboardInterrupt(), "Ctrl-C"), (ValueError("no"), "ValueError: no")])
def test_an_error_on_the_way_out_is_recorded(tmp_path: Path, error: BaseException, by: str) -> None:
    with pytest.raises(type(error)), Run.create(tmp_path / "run", kind="k", config={}):
        raise error
    with Run.open(tmp_path / "run", write=False) as run:
        assert run.state() is State.STOPPED and by in run.last_event().payload["by"]


def test_an_edited_config_is_not_ignored_silently(make: Create, tmp_path: Path) -> None:
    make(seed=1, rate=0.5).close()
    file = tmp_path / "run" / "run.yaml"
    text = file.read_text()
    file.write_text(text + "\n# a note of mine\n")
    Run.open(tmp_path / "run", write=True).close()
    for edited in (text.replace("seed: 1", "seed: 2"), "seed: [", "- 1\n"):
        file.write_text(edited)
        with pytest.raises(StoreError, match=r"run\.yaml was changed"):
            Run.open(tmp_path / "run", write=True)
        Run.open(tmp_path / "run", write=False).close()
    file.unlink()
    Run.open(tmp_path / "run", write=True).close()


def test_a_larger_budget_goes_on(make: Create, tmp_path: Path) -> None:
    make(budget=Budget(evaluations=1)).close()
    with Run.open(tmp_path / "run", write=True, budget=Budget(evaluations=2)) as run:
        write_step(run, 1)
    with Run.open(tmp_path / "run", write=True) as run:
        assert run.ledger.remaining()["evaluations"] == 1 and run.ledger.budget == Budget(evaluations=2)
        assert [e.payload["evaluations"] for e in run.events(kinds=["run.budget"])] == [2]


def test_rollouts(make: Create) -> None:
    run = make()
    rows = [
        {"task": "t", "split": s, "reward": r, "truth": 1.0, "kept": True, "response": "x" * 50}
        for s, r in (("train", 0.5), ("holdout", math.nan), ("train", None))
    ]
    assert run.put_rollouts(rows, step=4) == 3 and run.put_rollouts([]) == 0
    assert [row["reward"] for row in run.rollouts(split="train")] == [0.5, None]
    assert len(list(run.rollouts())) == 3
    event = run.last_event()
    assert (event.kind, event.step, event.payload) == ("rollouts", 4, {"count": 3, "first": 1, "last": 3})
    with pytest.raises(UsageError, match="needs 'task' and 'split'"):
        run.put_rollouts([rows[0], {"task": "t"}])
    assert len(list(run.rollouts())) == 3


def steps(path: Path, order: list[int], wall_s: float, kills: set[int]) -> str:
    run = Run.create(path, kind="evolve", config={"seed": 1})
    for n, i in enumerate(order):
        write_step(run, i, wall_s=wall_s)
        if n in kills:
            run._drop()
            run = Run.open(path, write=True)
    digest = run.digest()
    run.close()
    with Run.open(path, write=False) as reader:
        assert reader.digest() == digest
    return digest


def test_the_digest_covers_the_work_and_not_how_it_went(tmp_path: Path) -> None:
    first = steps(tmp_path / "a", [0, 1, 2, 3, 4, 5], 0.1, set())
    assert steps(tmp_path / "b", [3, 1, 5, 0, 4, 2], 7.5, {1, 3}) == first
    assert steps(tmp_path / "c", [0, 1, 2, 3, 4, 6], 0.1, set()) != first
    assert steps(tmp_path / "d", [0, 1, 2, 3, 4], 0.1, set()) != first


@pytest.mark.parametrize("change", ["event", "program", "evaluation", "completion", "rollout", "spent"])
def test_the_digest_sees_every_table(make: Create, change: str) -> None:
    run = make()
    write_step(run, 1)
    before = run.digest()
    assert run.digest() == before
    if change == "event":
        run.append("note", {})
    elif change == "program":
        run.connection.execute("UPDATE programs SET files = zeroblob(9)")
    elif change == "evaluation":
        run.connection.execute("UPDATE evaluations SET seed = '5'")
    elif change == "completion":
        run.connection.execute("UPDATE completions SET payload = '{}'")
    elif change == "rollout":
        run.connection.execute("INSERT INTO rollouts (split, task, payload) VALUES ('a', 'b', '{}')")
    else:
        run.ledger.settle(run.ledger.reserve("a", tokens=1))
    assert run.digest() != before


@settings(max_examples=25, deadline=None)
@given(texts=st.lists(st.text(st.characters(exclude_characters="\r")), min_size=1, max_size=5, unique=True))
def test_any_text_is_kept(texts: list[str]) -> None:
    def key(p: Program) -> str:
        return p.source.encode("utf-8", "replace").decode() + p.id

    programs = {p.id: p for p in (Program.of(text) for text in texts)}
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder, Run.create(f"{folder}/run", kind="k", config={}) as run:
        for p in programs.values():
            with run.transaction():
                run.put_program(p)
                run.put_completion(key(p), {"text": p.source})
                run.append("step", {"program": p.id, "key": key(p)})
        for p in programs.values():
            assert run.program(p.id) == p and run.completion(key(p)) == {"text": p.source}
        assert problems(run) == []
        with run.transaction(), pytest.raises(UsageError, match="lone surrogate"):
            run.put_completion("\ud800", {})


def test_memory_does_not_grow_with_the_run(path: Path) -> None:
    run, process = Run.create(path, kind="k", config={}), psutil.Process()

    def write(n: int) -> None:
        for _ in range(n):
            text = os.urandom(2500).hex()
            child = Program((("program.py", f"x = '{text}'"),))
            with run.transaction():
                run.put_program(child)
                run.put_evaluation(child.id, split="public", seed=0, payload={"feedback": text[:500]})
                run.append("step", {"program": child.id, "ts": time.time()})

    write(1500)
    before = process.memory_info().rss
    write(4000)  # 20 MB of sources
    for _ in run.events():
        pass
    run.digest()
    assert process.memory_info().rss - before < 12 << 20
    run.close()
