"""Data sets on disk: what is written is read back, by us and by `datasets`; bounded memory; damage is told."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from coevo.episodes.types import Source, StartState
from coevo.errors import StoreError, UsageError
from coevo.evolution.prompt import TaskView, build_messages
from coevo.evolution.types import Attempt, Context, Edit
from coevo.programs import Program
from coevo.tasks.types import Kind
from coevo.trajectories.folder import (
    read_manifest,
    read_states,
    read_trajectories,
    write_folder,
    write_states,
)
from coevo.trajectories.rows import Trajectory, state_id
from tests.models.tiny import make_tokenizer

VIEW = TaskView("Add two numbers.", Kind.FUNCTION, "solve")

numbers = st.one_of(st.none(), st.floats(0, 1))
texts = st.text(max_size=30).filter(lambda text: text.encode("utf-8", "replace").decode() == text)
programs = st.one_of(
    st.builds(Program.of, texts),
    st.builds(lambda a, b: Program.of({"main.py": a, "pkg/b.py": b}, "main.py"), texts, texts),
)
attempts = st.builds(Attempt, programs, numbers, numbers, numbers, numbers, numbers, texts)
contexts = st.builds(
    Context,
    parent=attempts,
    inspirations=st.lists(attempts, max_size=2).map(tuple),
    history=st.lists(attempts, max_size=3).map(tuple),
    rejected=texts,
)
trajectories = st.builds(
    Trajectory,
    state=st.builds(
        StartState,
        id=st.text("0123456789abcdef", min_size=16, max_size=16),
        task=st.sampled_from(["add", "mul:n=3"]),
        context=contexts,
        style=st.sampled_from([Edit.REWRITE, Edit.DIFF, Edit.CROSSOVER, Edit.WRITE]),
        source=st.sampled_from(list(Source)),
        depth=st.integers(0, 1000),
        headroom=numbers,
        known=st.frozensets(st.sampled_from(["a" * 16, "b" * 16, "c" * 16])),
    ),
    split=st.just("train"),
    task_digest=texts,
    statement=texts,
    next=st.one_of(st.none(), attempts),
    outcome=st.sampled_from(["scored", "failed", "no_code", ""]),
    origin=texts,
    step=st.one_of(st.none(), st.integers(0, 2**40)),
    seed=st.integers(0, 2**31),
)


def simple(number: int, split: str = "train", size: int = 20) -> Trajectory:
    program = Program.of(f"def solve(a, b):\n    return a + {number}\n" + "# padding\n" * size)
    earlier = Program.of(f"def solve(a, b):\n    return {number}\n")
    context = Context(
        Attempt(program, 0.5, 0.5, feedback="Passed 2 of 4."),
        history=(Attempt(earlier, 0.25, 0.25),),
    )
    state = StartState(state_id("add", Edit.REWRITE, context), "add", context, headroom=0.5)
    return Trajectory(state, split, "d", VIEW.statement, build_messages(VIEW, context, style=Edit.REWRITE), seed=7)


def write(folder: Path, count: int, **settings) -> dict:
    rows = {"train": lambda: map(simple, range(count))}
    return write_folder(folder, rows, facts=dict, **settings)


@given(st.lists(trajectories, min_size=1, max_size=4))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_what_is_written_is_read_back(tmp_path: Path, rows: list[Trajectory]) -> None:
    write_folder(tmp_path, {"train": lambda: rows}, facts=dict)
    assert list(read_trajectories(tmp_path, split="train")) == rows
    assert list(read_states(tmp_path, split="train")) == [row.state for row in rows]


def test_shards_groups_and_bytes(tmp_path: Path) -> None:
    manifest = write(tmp_path / "a", 25, group_rows=4, shard_rows=10)
    names = [file["name"] for file in manifest["splits"]["train"]["files"]]
    assert names == [f"train-0000{i}-of-00003.parquet" for i in range(3)]
    assert [file["rows"] for file in manifest["splits"]["train"]["files"]] == [10, 10, 5]
    first = pq.ParquetFile(tmp_path / "a/data" / names[0])
    assert [first.metadata.row_group(i).num_rows for i in range(first.num_row_groups)] == [4, 4, 2]
    write(tmp_path / "b", 25, group_rows=4, shard_rows=10)
    for name in names:
        assert (tmp_path / "a/data" / name).read_bytes() == (tmp_path / "b/data" / name).read_bytes()
    seen = [row.state.context.parent.program.source for row in read_trajectories(tmp_path / "a", split="train")]
    assert seen == [simple(i).state.context.parent.program.source for i in range(25)]


def test_datasets_loads_the_folder_as_chats(tmp_path: Path) -> None:
    rows = {"train": lambda: map(simple, range(5)), "test": lambda: (simple(i, "test") for i in range(2))}
    write_folder(tmp_path / "set", rows, facts=lambda: {"seed": 3, "command": "coevo synth add"})
    loaded = datasets.load_dataset(str(tmp_path / "set"), cache_dir=str(tmp_path / "cache"))
    assert {split: len(found) for split, found in loaded.items()} == {"train": 5, "test": 2}
    prompt = loaded["train"][3]["prompt"]
    assert [message["role"] for message in prompt] == ["system", "user"]
    assert prompt[1]["content"] == simple(3).messages[1].content
    only = loaded["train"].select_columns(["prompt"])
    assert only.column_names == ["prompt"]
    text = make_tokenizer().apply_chat_template(only[3]["prompt"], tokenize=False, add_generation_prompt=True)
    assert simple(3).messages[0].content in text and simple(3).messages[1].content.strip() in text
    front = yaml.safe_load((tmp_path / "set/README.md").read_text().split("---")[1])
    assert front["size_categories"] == ["n<1K"]
    assert [found["split"] for found in front["configs"][0]["data_files"]] == ["train", "test"]


def test_states_alone_can_be_kept(tmp_path: Path) -> None:
    states = [simple(i).state for i in range(3)]
    assert write_states(tmp_path / "a", iter(states), split="validation", note="Kept by a test.") == 3
    assert list(read_states(tmp_path / "a", split="validation")) == states
    assert "Kept by a test." in (tmp_path / "a/README.md").read_text()
    write_states(tmp_path / "b", states, split="train", views={"add": VIEW})
    assert [row.messages for row in read_trajectories(tmp_path / "b", split="train")] == [
        simple(i).messages for i in range(3)
    ]
    assert write_states(tmp_path / "c", [], split="train") == 0
    assert read_manifest(tmp_path / "c")["splits"] == {}
    with pytest.raises(UsageError, match="unknown split 'dev'; the splits are train, validation, test"):
        write_states(tmp_path / "d", states, split="dev")


def test_text_without_utf8_is_replaced(tmp_path: Path) -> None:
    row = simple(0)
    context = Context(Attempt(row.state.context.parent.program, 0.5, feedback="bad \udcff byte \0"))
    state = StartState("0" * 16, "add", context)
    write_states(tmp_path, [state], split="train")
    assert next(read_states(tmp_path, split="train")).context.parent.feedback == "bad ? byte \0"


def test_a_failed_write_leaves_the_old_data(tmp_path: Path) -> None:
    write(tmp_path, 3)

    def broken() -> Iterator[Trajectory]:
        yield simple(0)
        raise StoreError("a source went away")

    with pytest.raises(StoreError, match="went away"):
        write_folder(tmp_path, {"train": broken}, facts=dict)
    assert len(list(read_states(tmp_path, split="train"))) == 3
    assert not list(tmp_path.glob(".data*"))


# Damage and age


def test_bad_folders_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not exist"):
        read_states(tmp_path / "nowhere", split="train")
    with pytest.raises(UsageError, match=r"holds no coevo\.json"):
        read_states(tmp_path, split="train")
    write(tmp_path, 3)
    with pytest.raises(UsageError, match="has no split 'test'; it has train"):
        read_states(tmp_path, split="test")
    manifest = json.loads((tmp_path / "coevo.json").read_text())
    (tmp_path / "coevo.json").write_text(json.dumps({**manifest, "schema": 99}))
    with pytest.raises(UsageError, match="has schema 99, and this coevo reads up to 1"):
        read_states(tmp_path, split="train")
    for text in ("{", "[]", '{"kind": 3}', json.dumps({**manifest, "kind": "other"})):
        (tmp_path / "coevo.json").write_text(text)
        with pytest.raises(UsageError, match=r"coevo\.json"):
            read_states(tmp_path, split="train")


def test_rows_that_went_missing_are_told(tmp_path: Path) -> None:
    """A file that is whole, but not the one that was written."""
    write(tmp_path / "few", 2)
    write(tmp_path / "many", 5)
    (few,), (many,) = ((tmp_path / name / "data").iterdir() for name in ("few", "many"))
    many.write_bytes(few.read_bytes())
    with pytest.raises(UsageError, match=r"holds 2 rows and coevo\.json says 5"):
        list(read_states(tmp_path / "many", split="train"))


def test_damaged_files_are_named_with_their_row(tmp_path: Path) -> None:
    write(tmp_path, 500, group_rows=100)
    file = tmp_path / "data/train-00000-of-00001.parquet"
    whole = file.read_bytes()
    file.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(UsageError, match=r"train-00000-of-00001\.parquet cannot be read"):
        list(read_states(tmp_path, split="train"))
    middle = pq.ParquetFile(pa.BufferReader(whole)).metadata.row_group(3).column(0).data_page_offset
    file.write_bytes(whole[:middle] + b"\xff" * 200 + whole[middle + 200 :])
    with pytest.raises(UsageError, match=r"after row \d+: damaged"):
        list(read_states(tmp_path, split="train"))
    file.unlink()
    with pytest.raises(UsageError, match="is missing"):
        list(read_states(tmp_path, split="train"))


def test_a_row_that_is_none_is_named(tmp_path: Path) -> None:
    write(tmp_path, 5)
    file = tmp_path / "data/train-00000-of-00001.parquet"
    table = pq.read_table(file)
    rows = table.to_pylist()
    rows[3]["style"] = "sing"
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), file)
    with pytest.raises(UsageError, match=r"row 4: not a trajectory.*'sing'"):
        list(read_states(tmp_path, split="train"))


def test_columns_of_later_versions_read_as_empty(tmp_path: Path) -> None:
    """A folder from before a column was added still reads."""
    write(tmp_path, 2)
    file = tmp_path / "data/train-00000-of-00001.parquet"
    table = pq.read_table(file).drop_columns(["inspirations", "rejected", "known", "origin", "gain", "step", "depth"])
    pq.write_table(table, file)
    row = next(read_trajectories(tmp_path, split="train"))
    assert row.state.context == simple(0).state.context and row.origin == "" and row.step is None


def test_a_folder_of_schema_1_reads(tmp_path: Path) -> None:
    """Written by the first version and kept as it was: `python -m tests.trajectories.make_fixture` made it."""
    kept = Path(__file__).parent / "schema1"
    shutil.copytree(kept, tmp_path / "set")
    rows = list(read_trajectories(tmp_path / "set", split="train"))
    assert [row.state.task for row in rows] == ["add"] * 3
    assert rows == [simple(i, size=1) for i in range(3)]


# Memory

_PEAK = """
import resource, sys
from pathlib import Path
from coevo.episodes.types import StartState
from coevo.evolution.types import Attempt, Context
from coevo.programs import Program
from coevo.trajectories.folder import read_states, write_folder
from coevo.trajectories.rows import Trajectory
folder, count = Path(sys.argv[1]), int(sys.argv[2])
program = Program.of("x = 1")
def rows():
    for i in range(count):
        context = Context(Attempt(program, 0.5, feedback=f"{i} " * 3000))
        yield Trajectory(StartState(f"{i:016x}", "add", context))
write_folder(folder, {"train": rows}, facts=dict, group_rows=50)
assert sum(1 for _ in read_states(folder, split="train")) == count
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def peak_mb(folder: Path, count: int) -> float:
    env = {**os.environ, "PYTHONPATH": ".", "ARROW_DEFAULT_MEMORY_POOL": "system"}
    done = subprocess.run(
        [sys.executable, "-c", _PEAK, str(folder), str(count)], capture_output=True, text=True, check=True, env=env
    )
    return int(done.stdout.split()[-1]) / 1024


def test_memory_does_not_grow_with_the_rows(tmp_path: Path) -> None:
    """Twenty times the rows (some 60 MB of text) in hardly more memory."""
    few, many = peak_mb(tmp_path / "few", 200), peak_mb(tmp_path / "many", 4000)
    assert many - few < 20, f"{few:.0f} MB for 200 rows, {many:.0f} MB for 4,000"
