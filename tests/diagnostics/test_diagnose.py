"""The framework: nothing a diagnostic or a rule does costs the others a word."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coevo.diagnostics import library
from coevo.diagnostics.answer import answer
from coevo.diagnostics.diagnose import diagnose
from coevo.diagnostics.gaps import folded, gaps
from coevo.diagnostics.page import bars, lines_of, safe
from coevo.diagnostics.registry import load, shipped
from coevo.diagnostics.rules import RULES
from coevo.diagnostics.sources import Diagnosed, diagnose_source
from coevo.diagnostics.types import Diagnosis, Finding, Layer, Level, Levels, Reading, Rule
from coevo.errors import ConfigError, UsageError
from coevo.evidence.rows import frame_of
from tests.diagnostics import tables

ROWS = [
    {"step": s, "split": "train", "task": f"t{g}", "group": f"{s}.{g}", "sample": i, "reward": float((i + g + s) % 2)}
    for s in range(8)
    for g in range(4)
    for i in range(4)
]
PLAIN = shipped()["dead-groups"]
FAMILIES = {"continue", "reward", "filter", "data", "hyperparameter", "episode", "checkpoint", "average"}


def the(diagnosis: Diagnosis, id: str) -> Finding:
    found = diagnosis.finding(id)
    assert found is not None, id
    return found


def with_measure(measure, **changes):
    return {"x": replace(PLAIN, id="x", measure=measure, cases=(), **changes)}


def test_rules_cite_what_there_is_and_suggest_what_there_is() -> None:
    for rule in RULES:
        assert set(rule.cites) <= set(shipped()), rule.id
        assert set(rule.suggests) <= FAMILIES, rule.id
    assert len({rule.id for rule in RULES}) == len(RULES)


def test_a_diagnostic_that_raises_is_unknown_and_the_others_go_on() -> None:
    def broken(frame, baseline):
        raise ZeroDivisionError("oh")

    both = {**with_measure(broken), "dead-groups": PLAIN}
    found = diagnose(frame_of(ROWS), diagnostics=both)
    assert the(found, "x").level is Level.UNKNOWN and "ZeroDivisionError: oh" in found.unknown["x"]
    assert the(found, "dead-groups").level is Level.OK


@pytest.mark.parametrize("value", [math.nan, math.inf, "much", [1], np.float64("nan")])
def test_what_is_no_number_is_unknown(value) -> None:
    found = diagnose(frame_of(ROWS), diagnostics=with_measure(lambda f, b: Reading(value, "n")))
    assert the(found, "x").level is Level.UNKNOWN


def test_a_reading_becomes_plain_numbers() -> None:
    odd: Any = Reading(*[np.float32(0.5), "n" * 9999, np.int64(3), (np.int64(1),), ((np.float64(1), np.nan), (2, 0.5))])
    found = diagnose(frame_of(ROWS), diagnostics=with_measure(lambda f, b: odd))
    reading = the(found, "x").reading
    assert len(reading.note) < 1000 and reading.series == ((2.0, 0.5),)
    assert json.loads(json.dumps(found.to_dict()))["findings"]["x"]["rows"] == [1]


def test_a_missing_column_is_named_with_how_to_record_it() -> None:
    found = diagnose(frame_of([{k: v for k, v in row.items() if k != "reward"} for row in ROWS]))
    assert "'reward'" in found.unknown["dead-groups"] and "before any filter" in found.unknown["dead-groups"]
    assert "--baseline" in diagnose(frame_of(ROWS)).unknown["start-parity"]


def test_without_truth_the_headline_says_what_it_cannot_tell_and_how_one_adds_it() -> None:
    rows = [{**row, "reward": 0.1 * row["step"] + 0.01 * row["sample"]} for row in ROWS]
    frame = replace(frame_of(rows), truth='row["truth"] = hidden(row)')
    blind = list(lines_of(Diagnosed("", frame, diagnose(frame))))
    said = next(i for i, line in enumerate(blind) if "The reward rises" in line.text)
    assert "Whether the reward is right cannot be told" in blind[said].text and frame.truth in blind[said + 1].text
    told = frame_of([{**row, "truth": row["reward"]} for row in rows])
    assert not any("cannot be told" in line.text for line in lines_of(Diagnosed("", told, diagnose(told))))
    few = frame_of([{**row, "truth": row["reward"] if i % 16 == 0 else None} for i, row in enumerate(rows)])
    assert "too few rollouts to say whether that is real" in answer(diagnose(few))


def test_what_cannot_be_known_is_folded_by_what_is_missing() -> None:
    frame = frame_of(ROWS)
    found = diagnose(frame, diagnostics={**shipped(), **with_measure(lambda f, b: 1 / 0)})
    lines = folded(found.unknown)
    assert (
        len(lines) < len(found.unknown) / 2 and len([line for line in lines if line.startswith("column truth:")]) == 1
    )
    assert all(any(id in line for line in lines) for id in found.unknown), "nobody is left out"
    assert any("ZeroDivisionError" in line for line in lines)
    listed = gaps(found.unknown)
    assert {id for gap in listed for id in gap.ids} == set(found.unknown)
    assert len({gap.what for gap in listed}) == len(listed)
    page = [line.text for line in lines_of(Diagnosed("", frame, found), all=True)]
    assert any("no column 'contract_ok': say whether" in line for line in page)


def test_a_rule_that_raises_or_cites_what_is_not_there_costs_only_itself() -> None:
    bad = Rule("bad", ("dead-groups",), lambda f: 1 / 0 > 0, "never")
    far = Rule("far", ("nowhere",), lambda f: True, "never")
    good = Rule("good", ("dead-groups",), lambda f: f["dead-groups"].level is Level.OK, "always")
    found = diagnose(frame_of(ROWS), rules=(bad, far, good))
    assert [f.rule for f in found.fired] == ["good"] and "ZeroDivisionError" in found.unknown["rule bad"]


def test_training_rows_are_looked_at_and_others_where_asked() -> None:
    seen = {}

    def look(name):
        def measure(frame, baseline):
            seen[name] = frame.rows
            return Reading(0.0)

        return measure

    rows = [*ROWS, *({**row, "split": "eval"} for row in ROWS[:10])]
    asked = {
        name: replace(PLAIN, id=name, split=split, measure=look(name), needs=("reward",))
        for name, split in (("t", "train"), ("e", "eval"), ("all", ""), ("none", "gate"))
    }
    found = diagnose(frame_of(rows), diagnostics=asked)
    assert seen == {"t": 128, "e": 10, "all": 138}
    assert found.unknown["none"] == "no rows of split 'gate'"
    diagnose(frame_of(rows), diagnostics=asked, split="eval")
    assert seen["t"] == 10


def test_no_rows_are_no_error() -> None:
    found = diagnose(frame_of([]))
    assert {f.level for f in found.findings} == {Level.UNKNOWN} and not found.fired


def test_a_harness_file_is_ours_by_its_bytes_alone(tmp_path: Path) -> None:
    source = Path(library.__path__[0]) / "dead_groups.py"
    copy = tmp_path / "mine.py"
    copy.write_bytes(source.read_bytes())
    assert load(copy) is PLAIN
    copy.write_text(source.read_text() + "\nraise SystemExit\n")
    with pytest.raises(UsageError, match="sandbox"):
        load(copy)
    assert load(copy, foreign=lambda path: replace(PLAIN, id="theirs")).id == "theirs"
    with pytest.raises(UsageError, match="cannot be read"):
        load(tmp_path / "none.py")


def test_levels_go_both_ways() -> None:
    assert [Levels(1, 2).of(v) for v in (0, 1, 2)] == [Level.OK, Level.WARN, Level.CRITICAL]
    assert [Levels(0.5, 0.1).of(v) for v in (1, 0.5, 0.1)] == [Level.OK, Level.WARN, Level.CRITICAL]


# Evidence is bad input by nature

_NUMBER = st.one_of(st.none(), st.floats(), st.integers(-(10**400), 10**400), st.booleans(), st.text(max_size=3))
_WORD = st.one_of(
    st.none(), st.text(max_size=5), st.integers(), st.sampled_from(["", "train", "stop", "timeout", "\ud800"])
)
HOSTILE = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            **dict.fromkeys(
                ("step", "reward", "truth", "fitness", "parent_fitness", "advantage", "logprob_mean"), _NUMBER
            ),
            **dict.fromkeys(("entropy_mean", "kept", "tokens", "sample", "contract_ok", "meaning_ok"), _NUMBER),
            **dict.fromkeys(
                ("run", "branch", "split", "task", "group", "stop_reason", "unmeasured_reason", "program_hash"), _WORD
            ),
            "parts": st.one_of(
                st.none(), st.text(max_size=2), st.dictionaries(st.text(max_size=3), _NUMBER, max_size=2)
            ),
        },
    ),
    max_size=25,
)


@settings(deadline=None, max_examples=40)
@given(HOSTILE, HOSTILE)
def test_no_rows_make_a_diagnostic_fail(rows: list[dict], before: list[dict]) -> None:
    frame = frame_of(rows)
    found = diagnose(frame, frame_of(before))
    failed = {id: why for id, why in found.unknown.items() if "it failed" in why}
    assert not failed
    json.dumps(found.to_dict())
    assert all(safe(line.text) == line.text for line in lines_of(Diagnosed("", frame, found)))


def test_the_order_of_rows_does_not_matter() -> None:
    rng = np.random.Generator(np.random.Philox(3))
    mixed = [ROWS[i] for i in rng.permutation(len(ROWS))]
    one, other = diagnose(frame_of(ROWS)), diagnose(frame_of(mixed))
    for a, b in zip(one.findings, other.findings, strict=True):
        assert a.level == b.level and a.reading.value == pytest.approx(b.reading.value, nan_ok=True), a.diagnostic


# The page

ATTACK = "\x1b[2J\x1b]0;owned\x07\u202egnp.exe\ud800\r\n" + "A" * 100_000 + "\x1b[31mend"


def test_hostile_texts_are_shown_escaped_and_short() -> None:
    rows = [
        {**row, "reward": 0.5, "prompt": ATTACK, "response": ATTACK, "task": "\x1b[1mt", "unmeasured_reason": ""}
        for row in ROWS
    ]
    frame = frame_of(rows, source="evil\x1b[5m")
    page = [line.text for line in lines_of(Diagnosed("\x1bb", frame, diagnose(frame)), rows=3)]
    text = "\n".join(page)
    assert all(c.isprintable() or c == "\n" for c in text) and "\\x1b[31mend" in text
    assert max(map(len, page)) < 1200


def test_bars_span_from_lowest_to_highest() -> None:
    assert bars(tuple((i, float(i)) for i in range(8))) == "▁▂▃▄▅▆▇█"
    assert bars(((0, 1.0),) * 5) == "▁▁▁▁▁" and bars(((0, 1.0),)) == ""


# Sources


def write(path: Path, rows: list[dict]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_branches_are_diagnosed_apart_or_together(tmp_path: Path) -> None:
    rows = [
        {**row, "run": "r", "branch": b, "reward": row["reward"] if b == "good" else 0.0}
        for b in ("good", "bad")
        for row in ROWS
    ]
    path = write(tmp_path / "two.jsonl", rows)
    good, bad = diagnose_source(path)
    assert (good.name, bad.name) == ("good", "bad")
    assert the(good.diagnosis, "dead-groups").level is Level.OK
    assert the(bad.diagnosis, "dead-groups").level is Level.CRITICAL
    assert bad.frame.excerpt(the(bad.diagnosis, "dead-groups").reading.rows)[0]["branch"] == "bad"
    (both,) = diagnose_source(path, together=True)
    assert both.frame.rows == len(rows)
    (one,) = diagnose_source(path, path, branch="bad", baseline_branch="good")
    assert the(one.diagnosis, "against-baseline").level is Level.CRITICAL
    with pytest.raises(ConfigError, match=r"'goood'\. Did you mean 'good'"):
        diagnose_source(path, branch="goood")


def test_what_is_asked_wrongly_is_told(tmp_path: Path) -> None:
    path = write(tmp_path / "rows.jsonl", ROWS)
    with pytest.raises(UsageError, match="no rows of split 'eval'"):
        diagnose_source(path, split="eval")
    with pytest.raises(ConfigError, match="Did you mean 'dead-groups'"):
        diagnose_source(path, only=("dead-group",))
    (only,) = diagnose_source(path, only=("dead-groups",))
    assert [f.diagnostic for f in only.diagnosis.findings] == ["dead-groups"]
    assert {d.layer for d in shipped().values()} == set(Layer)


def test_the_docs_list_every_diagnostic_and_rule_as_it_is() -> None:
    docs = tables.DOCS.read_text(encoding="utf-8")
    assert docs == tables.written(docs), "run `python -m tests.diagnostics.tables`"
    assert all(f"| `{id}` |" in docs for id in (*shipped(), *(rule.id for rule in RULES)))
