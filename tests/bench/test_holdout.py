"""The ledger of test splits: opened once, and what it says when that is not so."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from coevo.bench.holdout import Holdout
from coevo.errors import GateBlocked, StoreError

KEY = {"arm": "search", "seed": 0, "what": "weights and settings"}


def ledger(tmp_path: Path, study: str = "study") -> Holdout:
    return Holdout(tmp_path / "sub" / "holdout.jsonl", study=study, run="runs/x")


def test_a_second_look_is_refused_and_a_forced_one_is_marked(tmp_path: Path) -> None:
    book = ledger(tmp_path)
    first = book.open("mini/ood", "d1", **KEY)
    assert (first.ever, first.study, first.forced) == (1, 1, False)
    book.close("mini/ood", "d1", **KEY)
    with pytest.raises(GateBlocked, match=r"opened test split mini/ood for arm 'search', seed 0.*--force-holdout") as e:
        book.open("mini/ood", "d1", **KEY)
    assert e.value.exit_code == 4
    with pytest.raises(GateBlocked):
        book.open("mini/ood", "d1", arm="search", seed=0, what="other weights")
    again = book.open("mini/ood", "d1", force=True, **KEY)
    assert (again.ever, again.study, again.forced) == (2, 2, True) and "FORCED" in str(again)


def test_other_arms_seeds_splits_and_studies_have_their_own_look_and_all_are_counted(tmp_path: Path) -> None:
    book = ledger(tmp_path)
    book.open("mini/ood", "d1", **KEY)
    assert book.open("mini/ood", "d1", arm="direct", seed=0, what="w").ever == 2
    assert book.open("mini/ood", "d1", arm="search", seed=1, what="w").ever == 3
    assert book.open("mini/id", "d2", **KEY).ever == 1
    other = ledger(tmp_path, "another study").open("mini/ood", "d1", **KEY)
    assert (other.ever, other.study) == (4, 1)


def test_a_look_that_a_kill_left_open_goes_on_but_only_for_the_same_thing(tmp_path: Path) -> None:
    book = ledger(tmp_path)
    book.open("mini/ood", "d1", **KEY)
    assert ledger(tmp_path).open("mini/ood", "d1", **KEY).study == 1
    assert len(book.accesses()) == 1
    with pytest.raises(GateBlocked):
        book.open("mini/ood", "d1", arm="search", seed=0, what="changed after a peek")


def test_what_was_stored_before_a_kill_is_closed_later(tmp_path: Path) -> None:
    book = ledger(tmp_path)
    book.open("mini/ood", "d1", **KEY)
    book.settle("mini/ood", "d1", **KEY)
    book.settle("mini/ood", "d1", **KEY)
    assert [a.event for a in book.accesses()] == ["open", "closed"]
    with pytest.raises(GateBlocked):
        book.open("mini/ood", "d1", **KEY)


def test_a_line_cut_short_is_passed_over_and_the_next_is_whole(tmp_path: Path) -> None:
    book = ledger(tmp_path)
    book.open("mini/ood", "d1", **KEY)
    with book.path.open("a") as handle:
        handle.write('{"ts": 1.0, "suite": "mini/o')
    assert len(book.accesses()) == 1
    book.close("mini/ood", "d1", **KEY)
    assert [a.event for a in book.accesses()] == ["open", "closed"]


@pytest.mark.parametrize("text", ["nonsense\n", '{"ts": 1}\n', "[1, 2]\n"])
def test_a_file_that_is_no_ledger_is_an_error(tmp_path: Path, text: str) -> None:
    book = ledger(tmp_path)
    book.path.parent.mkdir()
    book.path.write_text(text + json.dumps({}) + "\n")
    with pytest.raises(StoreError, match="line 1 is no line of a holdout ledger"):
        book.open("mini/ood", "d1", **KEY)


def test_a_ledger_that_cannot_be_written_measures_nothing(tmp_path: Path) -> None:
    (tmp_path / "sub").write_text("a file in its way")
    with pytest.raises(StoreError, match="ledger"):
        ledger(tmp_path).open("mini/ood", "d1", **KEY)


def test_writers_do_not_mix_their_lines(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as threads:
        list(
            threads.map(
                lambda n: ledger(tmp_path, f"study {n}").open("mini/ood", "d1", arm="search", seed=n, what="w" * 500),
                range(40),
            )
        )
    assert len(ledger(tmp_path).accesses()) == 40
