"""However a source is cut, and whoever reads the parts, the frame is the same."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coevo.errors import InfrastructureError
from coevo.evidence import Frame, open_evidence
from coevo.evidence.columns import Builder, joined
from coevo.evidence.crew import packed, unpacked
from coevo.evidence.readers.own import LAYOUT
from coevo.evidence.sources import jsonl, parquet
from tests.evidence import writers
from tests.evidence.test_readers import run_of


def equal(a: Frame, b: Frame) -> None:
    assert a.rows == b.rows and a.notes == b.notes
    assert list(a.numbers_by_name) == list(b.numbers_by_name) and list(a.words_by_name) == list(b.words_by_name)
    for name in a.numbers_by_name:
        assert np.array_equal(a.numbers(name), b.numbers(name), equal_nan=True), name
    for name in a.words_by_name:
        assert a.words(name).values == b.words(name).values
        assert np.array_equal(a.words(name).codes, b.words(name).codes)


def test_spans_and_workers_change_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = writers.rollouts(steps=12)
    lines = writers.jsonl(tmp_path / "a.jsonl", rows)
    lines.write_text(lines.read_text().replace('{"schema": 1, "run": "r", "branch": "b0", "step": 7', '{"broken', 1))
    table = writers.parquet(tmp_path / "a.parquet", rows, row_group=50)
    run = run_of(tmp_path / "run", rows)
    wholes = [open_evidence(path, workers=0) for path in (lines, table, run)]
    monkeypatch.setattr(jsonl, "SPAN", 3_001)
    monkeypatch.setattr(parquet, "SPAN", 17)
    monkeypatch.setattr("coevo.evidence.sources.runs.SPAN", 11)
    for path, whole in zip((lines, table, run), wholes, strict=True):
        cut = open_evidence(path, workers=0)
        equal(cut, whole)
        assert cut.excerpt([100, 3]) == whole.excerpt([100, 3])
    equal(open_evidence(lines, workers=2), wholes[0])
    assert "a.jsonl line 97: no JSON" in wholes[0].notes[0]


@settings(max_examples=25, deadline=None)
@given(places=st.lists(st.integers(0, 191), max_size=60))
def test_rows_are_found_again_in_any_order_and_any_number(fetched: tuple[Frame, ...], places: list[int]) -> None:
    asked = [[row["response"] for row in frame.excerpt(places)] for frame in fetched]
    whole = [row["response"] for row in fetched[0].excerpt(range(192))]
    assert asked == [[whole[place] for place in places]] * 3


@pytest.fixture(scope="module")
def fetched(tmp_path_factory: pytest.TempPathFactory) -> tuple[Frame, ...]:
    """One set of rollouts as lines, as a table of several row groups, and as a run."""
    root, rows = tmp_path_factory.mktemp("fetched"), writers.rollouts(steps=12)
    paths = (
        writers.jsonl(root / "a.jsonl", rows),
        writers.parquet(root / "a.parquet", rows, row_group=50),
        run_of(root / "run", rows),
    )
    return tuple(open_evidence(path, workers=0) for path in paths)


def test_a_reader_that_dies_is_an_error_of_the_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = writers.jsonl(tmp_path / "a.jsonl", writers.rollouts())
    monkeypatch.setattr(jsonl, "SPAN", 5_000)
    monkeypatch.setattr("coevo.evidence.crew.sys.executable", "/bin/true")
    with pytest.raises(InfrastructureError, match=r"a\.jsonl from .* ended early"):
        open_evidence(path, workers=2)


values = st.one_of(st.none(), st.booleans(), st.integers(-(10**9), 10**9), st.floats(), st.text(max_size=5))
rows = st.lists(
    st.dictionaries(
        st.sampled_from(["reward", "task", "step", "mine", "kind", "yours", "response"]), values, max_size=6
    ),
    max_size=30,
)


def built(some: list[writers.Row]) -> Builder:
    builder = Builder(LAYOUT)
    if some:
        builder.add_records(some, np.zeros((len(some), 2), dtype=np.int64))
    return builder


@settings(max_examples=80, deadline=None)
@given(rows, st.integers(0, 30))
def test_pieces_join_to_the_whole(some: list[writers.Row], cut: int) -> None:
    whole = joined([built(some).done()])
    parts = joined([unpacked(*packed(built(part).done())) for part in (some[:cut], some[cut:])])
    assert {n for n, c in whole[0].items() if np.isfinite(c).any()} >= {
        n for n, c in parts[0].items() if np.isfinite(c).any()
    }
    for name, column in parts[0].items():
        assert np.array_equal(whole[0].get(name, np.full(len(some), np.nan)), column, equal_nan=True), name
    for name, words in parts[1].items():
        if name in whole[1]:
            spelled = [[None if c < 0 else w.values[c] for c in w.codes] for w in (words, whole[1][name])]
            assert spelled[0] == spelled[1], name
