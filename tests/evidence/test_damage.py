"""Files as they really are: half written, mixed up, and sometimes no evidence at all."""

import gzip
import json
import os
import random
from pathlib import Path

import numpy as np
import pytest

from coevo.errors import CoevoError, UsageError
from coevo.evidence import frame_of, open_evidence
from coevo.evidence.types import NUMBERS
from tests.evidence import writers

ROWS = writers.rollouts(steps=1)


def test_damaged_lines_are_counted_and_named(tmp_path: Path) -> None:
    lines = [json.dumps(row) for row in ROWS]
    lines[3] = lines[3][:40]
    lines[5] = "[1, 2]"
    lines[7] = ""
    lines[9] = "[" * 100_000
    raw = "\n".join(lines).encode() + b"\n" + b'{"task": "\xff\xfe"}\n' + b'{"reward": 1' + b"0" * 5000 + b"}\n"
    (tmp_path / "a.jsonl").write_bytes(raw)
    frame = open_evidence(tmp_path / "a.jsonl")
    assert frame.rows == len(ROWS) - 4
    note = frame.notes[0]
    assert note.startswith("5 lines are no rollouts")
    for part in (
        "a.jsonl line 4: no JSON",
        "line 6: a list, no object",
        "line 10: nested too deep",
        "line 17: not UTF-8",
        "line 18: no JSON",
    ):
        assert part in note
    kept = [row for i, row in enumerate(ROWS) if i not in (3, 5, 7, 9)]
    assert frame.numbers("reward").tolist() == [row["reward"] for row in kept]
    assert [found["response"] for found in frame.excerpt([4, 0])] == [kept[4]["response"], kept[0]["response"]]


def test_marks_of_windows_are_no_damage(tmp_path: Path) -> None:
    raw = b"\xef\xbb\xbf" + "\r\n".join(json.dumps(row) for row in ROWS).encode()
    (tmp_path / "a.jsonl").write_bytes(raw)
    frame = open_evidence(tmp_path / "a.jsonl")
    assert frame.rows == len(ROWS) and not frame.notes
    assert frame.excerpt([0])[0]["task"] == "task-0"


def test_wrong_values_are_missing_and_told() -> None:
    values = [1.0, "high", None, float("inf"), float("nan"), 10**400, True, -(10**30), [1], {"a": 1}]
    frame = frame_of([{"reward": v, "tokens": i, "response": "x"} for i, v in enumerate(values)])
    assert frame.numbers("tokens").tolist() == list(range(10))
    frame = frame_of([{"reward": v, "response": "x"} for v in values[:-1]])
    known = frame.numbers("reward")
    assert known[[0, 6, 7]].tolist() == [1.0, 1.0, -1e30] and np.isnan(known[[1, 2, 3, 4, 5, 8]]).all()
    assert "reward: 5 values are no finite numbers" in frame.notes


def test_columns_of_mixed_types(tmp_path: Path) -> None:
    rows = [
        {"reward": 1.0, "mine": 1},
        {"reward": 0.0, "mine": "two"},
        {"reward": 0.5, "mine": 3.5},
        {"reward": 0.5, "also": [1]},
    ]
    frame = open_evidence(writers.jsonl(tmp_path / "a.jsonl", rows))
    codes, values = frame.words("mine")
    assert [values[c] if c >= 0 else None for c in codes] == ["1", "two", "3.5", None]
    assert any("left out" in note and "also" in note for note in frame.notes)


def test_tasks_that_are_null_are_no_tasks() -> None:
    rows = [
        {"task": None, "group": None, "step": 1, "prompt": f"p{i // 3}", "response": "x", "reward": 1.0}
        for i in range(6)
    ]
    assert frame_of(rows).groups.tolist() == [0, 0, 0, 1, 1, 1]


def test_numbers_name_tasks_and_groups_as_well(tmp_path: Path) -> None:
    rows = [{"task": i // 2, "group": 7.5, "reward": 1.0} for i in range(4)]
    for path in (writers.jsonl(tmp_path / "a.jsonl", rows), writers.parquet(tmp_path / "a.parquet", rows)):
        frame = open_evidence(path)
        assert frame.words("task").values == ("0", "1") and frame.words("group").values == ("7.5",)


def test_unknown_columns_with_a_value_for_each_row_do_not_fill_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("coevo.evidence.columns.MOST_VALUES", 20)
    rows = [{"reward": 1.0, "id": f"u{i}", "kind": "math", "essay": "x" * 300, "run": "r" * 300} for i in range(50)]
    frame = open_evidence(writers.jsonl(tmp_path / "a.jsonl", rows))
    assert set(frame.columns) == {"reward", "kind", "run"}
    assert len(frame.words("run").values[0]) == 200
    assert any(note.endswith("essay, id") for note in frame.notes)


def test_a_torn_archive_gives_what_is_whole(tmp_path: Path) -> None:
    whole = gzip.compress(b"".join(json.dumps(row).encode() + b"\n" for row in writers.rollouts(steps=20)))
    (tmp_path / "a.jsonl.gz").write_bytes(whole[: len(whole) * 2 // 3])
    frame = open_evidence(tmp_path / "a.jsonl.gz")
    assert 16 <= frame.rows < 320
    assert "the archive is damaged from here on" in frame.notes[0]


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.jsonl", b"", "is empty"),
        ("a.jsonl", b"\n\n  \n", "blank"),
        ("a.jsonl", b'[{"reward": 1},\n{"reward": 2},\n]', "a JSON array"),
        ("a.jsonl", b"step,reward\n1,0.5\n", "begins with b'step,reward"),
        ("a.jsonl", bytes(range(256)) * 40, "begins with"),
        ("a.jsonl", b'{"loss": 1.0, "epoch": 2}\n', "its rows have epoch, loss"),
        ("a.parquet", b"PAR1 and then nothing", "no whole Parquet file"),
        ("a.jsonl", b"\x1f\x8b\x08\x00", "name it .jsonl.gz"),
        ("a.jsonl.gz", b'{"reward": 1}\n', "no line of"),
    ],
)
def test_what_is_no_evidence_is_said(tmp_path: Path, name: str, content: bytes, says: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UsageError) as error:
        open_evidence(tmp_path / name)
    assert says in str(error.value) and str(tmp_path / name) in str(error.value)


def test_parquet_damaged_in_its_middle_is_named(tmp_path: Path) -> None:
    """Its footer is whole, so that it opens."""
    path = writers.parquet(tmp_path / "a.parquet", ROWS)
    data = path.read_bytes()
    path.write_bytes(data[:4] + b"\xff" * 200 + data[204:])
    with pytest.raises(UsageError, match=r"a\.parquet: it is damaged \(.*leave it out"):
        open_evidence(path)


def test_what_is_nowhere_and_folders_of_nothing(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no evidence at"):
        open_evidence(tmp_path / "no")
    with pytest.raises(UsageError, match="holds no evidence"):
        open_evidence(tmp_path)
    writers.jsonl(tmp_path / "a.jsonl", ROWS)
    writers.parquet(tmp_path / "a.parquet", ROWS)
    with pytest.raises(UsageError, match="both Parquet"):
        open_evidence(tmp_path)
    writers.parquet(tmp_path / "none.parquet", ROWS[:0] or [{"reward": None}])
    with pytest.raises(UsageError, match="limit must be"):
        open_evidence(tmp_path / "a.jsonl", limit=0)


def test_bytes_at_random_never_end_in_anything_but_our_errors(tmp_path: Path) -> None:
    rng = random.Random(5)
    good = b"".join(json.dumps(row).encode() + b"\n" for row in ROWS)
    for i in range(60):
        raw = bytearray(good)
        for _ in range(rng.randrange(1, 200)):
            raw[rng.randrange(len(raw))] = rng.randrange(256)
        path = tmp_path / f"{i}.jsonl"
        path.write_bytes(bytes(raw[rng.randrange(len(raw) // 2) :]))
        try:
            frame = open_evidence(path)
        except CoevoError:
            continue
        assert all(len(frame.numbers(name)) == frame.rows for name in NUMBERS)
        frame.excerpt(range(frame.rows))


def test_pipes_and_devices_are_refused_and_never_waited_on(tmp_path: Path) -> None:
    """Given by name (as `<(zcat ...)` is), or lying in a folder of rollouts."""
    os.mkfifo(tmp_path / "b.jsonl")
    for path in (tmp_path / "b.jsonl", Path("/dev/zero"), Path("/dev/null")):
        with pytest.raises(UsageError, match=r"pipe or a device.*write it to a \.jsonl file"):
            open_evidence(path)
    with pytest.raises(UsageError, match="holds no evidence"):
        open_evidence(tmp_path)
    (tmp_path / "c.parquet").mkdir()
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    assert open_evidence(tmp_path).rows == len(ROWS)
