"""The same rollouts come out of every trainer's files."""

from pathlib import Path

import numpy as np
import pytest

from coevo.errors import UsageError
from coevo.evidence import Frame, frame_of, open_evidence
from coevo.runs import Run
from coevo.runs.export import export
from tests.evidence import writers

FIXTURES = Path(__file__).parent / "fixtures"
ROWS = writers.rollouts()
BY_TEXT = ("text.chars", "text.opening", "text.shape", "text.sketch1", "text.copies_tests")


def same(a: np.ndarray, b: np.ndarray) -> bool:
    return np.array_equal(a, b, equal_nan=True)


def spelled(frame: Frame, name: str) -> list[str | None]:
    codes, values = frame.words(name)
    return [None if code < 0 else values[code] for code in codes]


def run_of(path: Path, rows: list[writers.Row], kind: str = "train") -> Path:
    with Run.create(path, kind=kind, config={}) as run:
        for step in dict.fromkeys(row["step"] for row in rows):
            run.put_rollouts([row for row in rows if row["step"] == step], step=step)
    return path


def written(kind: str, tmp: Path) -> Path:
    match kind:
        case "jsonl":
            return writers.jsonl(tmp / "rows.jsonl", ROWS)
        case "gz":
            return writers.jsonl(tmp / "rows.jsonl.gz", ROWS)
        case "parquet":
            return writers.parquet(tmp / "rows.parquet", ROWS, row_group=7)
        case "shards":
            (tmp / "shards").mkdir()
            for i in range(3):
                writers.parquet(tmp / "shards" / f"part-{i}.parquet", ROWS[16 * i : 16 * i + 16])
            return tmp / "shards"
        case "run":
            return run_of(tmp / "run", ROWS)
        case "lab":
            # What a lab stores itself are the gate's samples: no rollouts of any training.
            run_of(tmp / "lab", [{**row, "split": "gate", "step": 0} for row in ROWS[:5]], kind="lab")
            run_of(tmp / "lab" / "branches" / "b0", ROWS)
            return tmp / "lab"
        case _:
            run = run_of(tmp / "run", ROWS)
            with Run.open(run, write=False) as opened:
                export(opened, "rollouts", tmp / f"out.{kind}", format=kind.removeprefix("export-"))
            return tmp / f"out.{kind}"


@pytest.mark.parametrize("kind", ["jsonl", "gz", "parquet", "shards", "run", "lab", "export-jsonl", "export-parquet"])
def test_rows_of_schema_1_come_out_as_they_went_in(kind: str, tmp_path: Path) -> None:
    path = written(kind, tmp_path)
    if kind == "export-jsonl":
        path = path.rename(tmp_path / "out.jsonl")
    frame, plain = open_evidence(path), frame_of(ROWS)
    assert frame.rows == len(ROWS) and not frame.notes
    assert set(frame.columns) == set(plain.columns)
    for name in plain.numbers_by_name:
        assert same(frame.numbers(name), plain.numbers(name)), name
    for name in plain.words_by_name:
        assert spelled(frame, name) == spelled(plain, name), name
    assert same(frame.groups, plain.groups)
    for row in (0, 17, 47, 3):
        found = frame.excerpt([row])[0]
        assert {key: found[key] for key in ("prompt", "response", "parts")} == {
            k: ROWS[row][k] for k in ("prompt", "response", "parts")
        }


@pytest.mark.parametrize("chat", [False, True], ids=["texts", "chats"])
def test_trl_logs(tmp_path: Path, chat: bool) -> None:
    pytest.importorskip("pandas")
    frame, plain = open_evidence(writers.trl(tmp_path / "out", ROWS, chat=chat)), frame_of(ROWS)
    assert frame.parts == ("correct_reward", "speed_reward")
    assert np.allclose(frame.numbers("reward"), plain.numbers("parts.correct") + plain.numbers("parts.speed"))
    assert same(frame.numbers("advantage"), plain.numbers("advantage")) and same(
        frame.numbers("step"), plain.numbers("step")
    )
    assert same(frame.groups, plain.groups)
    assert any("groups" in note or "group" in note for note in frame.notes) and any(
        "sum of" in note for note in frame.notes
    )
    assert any("logging_steps=1" in note for note in frame.notes)
    if not chat:
        assert all(same(frame.numbers(name), plain.numbers(name)) for name in BY_TEXT)
    else:
        assert same(frame.numbers("text.shape"), plain.numbers("text.shape"))
    assert frame.excerpt([5])[0]["response"] == ROWS[5]["response"]
    assert frame.excerpt([5])[0]["parts"] == {
        "correct_reward": ROWS[5]["parts"]["correct"],
        "speed_reward": ROWS[5]["parts"]["speed"],
    }


def test_logs_that_trl_itself_wrote() -> None:
    """`fixtures/trl-1.16`: two steps of GRPOTrainer (TRL 1.16) on a random tiny Llama, chats, two reward functions and a `log_extra` column."""
    frame = open_evidence(FIXTURES / "trl-1.16")
    assert frame.rows == 16 and frame.parts == ("length_reward", "letter_reward")
    assert len(np.unique(frame.groups)) == 4 and set(frame.numbers("step").tolist()) == {1.0, 2.0}
    by_group = frame.numbers("reward").reshape(4, 4)
    centred = (by_group - by_group.mean(axis=1, keepdims=True)).reshape(-1)
    assert (np.sign(centred) == np.sign(frame.numbers("advantage"))).all()
    row = frame.excerpt([3])[0]
    assert row["prompt"].startswith("user: say ") and row["note"] == "x"
    assert row["reward"] == sum(row["parts"].values()) == frame.numbers("reward")[3]


def test_trl_advantages_that_contradict_the_sum_are_told(tmp_path: Path) -> None:
    pytest.importorskip("pandas")
    rows = [{**row, "advantage": -row["parts"]["correct"] - row["parts"]["speed"]} for row in ROWS]
    notes = open_evidence(writers.trl(tmp_path / "a", rows)).notes
    assert any("higher advantage" in note for note in notes)
    fair = [{**row, "advantage": -row["advantage"]} for row in rows for row in [{**row, "advantage": row["advantage"]}]]
    assert not any("higher advantage" in note for note in open_evidence(writers.trl(tmp_path / "b", fair)).notes)


def test_verl_dumps(tmp_path: Path) -> None:
    frame, plain = (
        open_evidence(writers.verl(tmp_path / "dump", writers.rollouts(steps=11))),
        frame_of(writers.rollouts(steps=11)),
    )
    for name in ("reward", "step", "meaning_ok", *BY_TEXT):
        assert same(frame.numbers(name), plain.numbers(name)), name
    assert same(frame.numbers("parts.speed"), plain.numbers("parts.speed")) and frame.parts == ("speed",)
    assert same(frame.groups, plain.groups)
    assert "secret" in spelled(frame, "gts")


def test_a_verl_file_names_the_step_that_its_rows_do_not(tmp_path: Path) -> None:
    rows = [{"input": "a", "output": "b", "score": 0.5}] * 3
    assert open_evidence(writers.jsonl(tmp_path / "17.jsonl", rows)).numbers("step").tolist() == [17.0] * 3


def test_roll_dumps(tmp_path: Path) -> None:
    frame, plain = open_evidence(writers.roll(tmp_path / "dump", ROWS)), frame_of(ROWS)
    for name in ("reward", "step", *BY_TEXT):
        assert same(frame.numbers(name), plain.numbers(name)), name
    assert spelled(frame, "task") == spelled(plain, "task") and set(spelled(frame, "kind")) == {"code"}
    assert same(frame.groups, plain.groups)
    assert frame.excerpt([30])[0]["response"] == ROWS[30]["response"]


def test_roll_dumps_of_chats_without_a_prompt(tmp_path: Path) -> None:
    lines = {"global_step": [4, 4], "messages": ["[1]", "[2]"], "responses": ["a", "b"], "scores": [0.5, 1.0]}
    frame = open_evidence(writers.jsonl(tmp_path / "a.jsonl", [lines, {**lines, "scores": [1.0]}]))
    assert frame.rows == 2 and [row["prompt"] for row in frame.excerpt([0, 1])] == ["[1]", "[2]"]
    assert "line 2: columns of different lengths" in frame.notes[0]


def test_agentic_roll_dumps(tmp_path: Path) -> None:
    frame, plain = open_evidence(writers.roll_agentic(tmp_path / "dump", ROWS)), frame_of(ROWS)
    assert same(frame.numbers("reward"), plain.numbers("reward")) and same(frame.groups, plain.groups)
    assert frame.numbers("turns").tolist() == [1.0] * len(ROWS)
    assert set(spelled(frame, "split")) == {"train"} and set(spelled(frame, "task")) == {"0", "1", "2", "3"}
    assert ROWS[9]["response"] in frame.excerpt([9])[0]["response"]


def test_the_first_rows_alone(tmp_path: Path) -> None:
    for path in (
        writers.jsonl(tmp_path / "a.jsonl", ROWS),
        writers.parquet(tmp_path / "a.parquet", ROWS, row_group=5),
        run_of(tmp_path / "r", ROWS),
    ):
        frame = open_evidence(path, limit=13)
        assert frame.rows == 13
        assert same(frame.numbers("reward"), frame_of(ROWS[:13]).numbers("reward"))


def test_without_texts_no_text_is_looked_at(tmp_path: Path) -> None:
    for path in (writers.jsonl(tmp_path / "a.jsonl", ROWS), writers.parquet(tmp_path / "a.parquet", ROWS)):
        frame = open_evidence(path, texts=False)
        assert not any(name.startswith("text.") for name in frame.columns)
        assert frame.excerpt([3])[0]["response"] == ROWS[3]["response"]


def test_a_frame_cut_down_still_finds_its_texts(tmp_path: Path) -> None:
    frame = open_evidence(writers.jsonl(tmp_path / "a.jsonl", ROWS))
    some = frame.where(frame.numbers("step") == 2)
    assert some.excerpt([some.number_of(0)])[0]["response"] == ROWS[16]["response"]


def test_a_changed_file_is_noticed(tmp_path: Path) -> None:
    path = writers.jsonl(tmp_path / "a.jsonl", ROWS)
    frame = open_evidence(path)
    path.write_text("\n" * 7 + path.read_text())
    with pytest.raises(UsageError, match="has changed"):
        frame.excerpt([5])
    with pytest.raises(UsageError, match="no row"):
        frame.excerpt([10**6])


def test_a_format_can_be_named(tmp_path: Path) -> None:
    path = writers.jsonl(tmp_path / "a.jsonl", [{"input": "p", "output": "r", "score": 1.0, "note": "x"}])
    assert open_evidence(path, format="verl").numbers("reward").tolist() == [1.0]
    with pytest.raises(UsageError, match="Known: coevo"):
        open_evidence(path, format="verk")


def test_what_trl_logs_beside_under_our_names_is_no_part_of_the_reward(tmp_path: Path) -> None:
    """`log_extra("truth", ...)` in a reward function is how TRL's log comes by a truth."""
    import pandas as pd

    steps = [1, 1, 2, 2]
    table = {"step": steps, "prompt": ["p"] * 4, "completion": list("abcd"), "letter": [1.0, 0.0, 1.0, 0.0]}
    table |= {"truth": [0.25, 0.5, 0.75, 1.0], "advantage": [1.0, -1.0, 1.0, -1.0]}
    pd.DataFrame(table).to_parquet(tmp_path / "completions.parquet")
    frame = open_evidence(tmp_path / "completions.parquet")
    assert frame.parts == ("letter",) and frame.numbers("truth").tolist() == table["truth"]
    row = frame.excerpt([1])[0]
    assert row["truth"] == 0.5 and row["parts"] == {"letter": 0.0} and row["reward"] == 0.0
    assert "log_extra" in frame.truth and "log_extra" in frame.where(frame.numbers("step") == 1).truth
