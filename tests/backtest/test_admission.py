"""How a harness's eyes may change: what is admitted, what is refused, and why."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from coevo.backtest import Known, Past, Plain, Term, admit, backtest_diagnostic, diagnostic_of, known_of, review, screen
from coevo.diagnostics.types import Level, Levels, Reading
from coevo.errors import UsageError
from coevo.evidence import frame_of
from coevo.streams import array_stream

APART = "drift(mean(reward)) - drift(mean(truth))"


def proposed(term: str = "", code: str = "", warn: float = 0.02, critical: float = 0.08, id: str = "new-one"):
    return Plain(id, "A new one", "", "something", warn, critical, code, term)


def test_the_leak_is_seen_and_the_table_is_kept(branches) -> None:
    found = admit(diagnostic_of(proposed(APART)), branches, {}, seed=0)
    assert found.admitted and found.table.auc() == 1.0
    told = json.loads(json.dumps(found.to_dict()))
    table = told["backtest"]["table"]
    assert [row["branch"] for row in table] == [b.name for b in branches]
    assert {row["level"] for row in table if row["known"] == "bad"} <= {"warn", "critical"}
    assert told["backtest"]["p"] == pytest.approx(1 / 70) and told["backtest"]["exact"]
    assert [check["passed"] for check in told["checks"]] == [True] * 8


def test_code_that_sees_the_leak_is_admitted_too(branches, bench) -> None:
    code = """
        import numpy as np


        def measure(columns):
            late = columns["step"] > np.median(columns["step"])
            gap = columns["reward"] - (columns["truth"] - columns["parent_fitness"])
            return np.nanmean(gap[late]) - np.nanmean(gap[~late])
    """
    source = "\n".join(line[8:] for line in code.splitlines())
    found = admit(diagnostic_of(proposed(code=source), bench=bench), branches, {}, seed=0)
    assert found.admitted, found.reason


def test_too_few_branches_cannot_tell_yet(branches) -> None:
    found = admit(diagnostic_of(proposed(APART)), branches[2:6], {}, seed=0)
    assert not found.admitted and "cannot be known yet" in found.reason and "3 of each" in found.reason
    six = branches[1:7]
    assert admit(
        diagnostic_of(proposed(APART)), six, {}, seed=0
    ).admitted  # 3 against 3: p is 0.05, the smallest possible.
    assert "5 of each" in admit(diagnostic_of(proposed(APART)), six, {}, seed=0, tried=5).reason
    nobody = [replace(b, known=Known.UNKNOWN) for b in branches]
    assert "0 good and 0 bad" in admit(diagnostic_of(proposed(APART)), nobody, {}, seed=0).reason


@pytest.mark.parametrize(
    ("term", "check", "says"),
    [
        ("mean(reward * 0)", "varies", "on every branch"),
        ("mean(no.such.column)", "defined", "no value on 4 of 4 good"),
        (f"-({APART})", "separates", "AUC 0.00"),
        ("mean(sample)", "varies", "on every branch"),
    ],
)
def test_terms_that_are_refused(branches, term: str, check: str, says: str) -> None:
    found = admit(diagnostic_of(proposed(term)), branches, {}, seed=0)
    assert not found.admitted and found.checks[-1].name == check and says in found.reason


def labelled(branches, *, step: int = 0, copies: int = 1) -> list[Past]:
    """Bad branches whose steps are numbered higher, or which have more rollouts, and nothing else."""
    found = []
    for i, b in enumerate(branches[:4] + branches[:4]):
        bad = i >= 4
        rows = b.frame.excerpt(range(0, b.frame.rows, 1 if bad and copies > 1 else copies))
        moved = [{**row, "step": row["step"] + (step if bad else 0) + i} for row in rows]
        found.append(Past(f"b{i}", frame_of(moved), Known.BAD if bad else Known.GOOD))
    return found


def test_relabelled_steps_and_sizes_are_refused(branches, bench) -> None:
    steps = diagnostic_of(proposed("mean(step)", warn=50, critical=100))
    found = admit(steps, labelled(branches, step=100), {}, seed=0)
    assert found.backtest.separation.auc == 1.0 and found.checks[-1].name == "behaviour" and not found.admitted
    size = diagnostic_of(
        proposed(code="def measure(c): return float(len(c['reward']))", warn=300, critical=400), bench=bench
    )
    found = admit(size, labelled(branches, copies=2), {}, seed=0)
    assert found.backtest.separation.auc == 1.0 and found.checks[-1].name == "behaviour" and not found.admitted
    assert "which branch it is" in found.reason


def test_what_another_says_already_is_refused(branches) -> None:
    old = diagnostic_of(proposed(APART, id="old-one"))
    twin = admit(diagnostic_of(proposed(f"2 * ({APART})")), branches, {"old-one": old}, seed=0)
    assert not twin.admitted and twin.checks[-1].name == "adds" and "old-one" in twin.reason
    same_id = admit(old, branches, {"old-one": old}, seed=0)
    assert not same_id.admitted and same_id.checks[-1].name == "new"
    blind = replace(old, levels=Levels(9.0, 10.0), measure=lambda frame, baseline: Reading(float(frame.rows % 7)))
    fresh = admit(diagnostic_of(proposed(APART)), branches, {"old-one": blind}, seed=0)
    assert fresh.admitted and len(fresh.backtest.missed) == 4 and fresh.backtest.partial_auc == 1


def test_what_differs_from_reading_to_reading_is_refused(branches) -> None:
    count = iter(range(10_000))
    shaky = replace(diagnostic_of(proposed(APART)), measure=lambda frame, baseline: Reading(float(next(count))))
    found = admit(shaky, branches, {}, seed=0)
    assert not found.admitted and found.checks[-1].name == "deterministic"


def test_levels_that_do_not_fit_are_fitted(branches) -> None:
    found = admit(diagnostic_of(proposed(APART, warn=50.0, critical=60.0)), branches, {}, seed=0)
    assert found.admitted and found.fitted
    good = [e.value for e in found.table.entries if e.known is Known.GOOD]
    bad = [e.value for e in found.table.entries if e.known is Known.BAD]
    assert found.levels.warn == pytest.approx((max(good) + min(bad)) / 2)
    kept = admit(diagnostic_of(proposed(APART)), branches, {}, seed=0)
    assert not kept.fitted and kept.levels == Levels(0.02, 0.08)


def test_noise_is_admitted_no_more_often_than_stated() -> None:
    """A number that every branch has and that has nothing to do with its outcome."""
    made, admitted, trials = diagnostic_of(proposed("mean(noise)", warn=0, critical=1)), 0, 120
    for trial in range(trials):
        values = array_stream(trial, "noise").normal(size=8)
        past = [
            Past(
                f"b{i}",
                frame_of({"group": f"g{j // 2}", "noise": value} for j in range(10)),
                (Known.GOOD, Known.BAD)[i % 2],
            )
            for i, value in enumerate(values.tolist())
        ]
        found = admit(made, past, {}, seed=0)
        admitted += found.admitted
        assert found.admitted or found.checks[-1].name == "separates"
    assert 0 < admitted <= 12  # 0.043 (3 of 70) are 5; more than 12 have a chance of 0.2 %.


def test_screening_finds_the_leak_and_pays_for_looking(branches) -> None:
    found = screen(branches, seed=0)
    assert found.tried > 60 and found.best[0].auc == 1.0
    assert str(found.best[0].term) == APART
    alone = screen(branches, [Term.parse(APART)], seed=0)
    assert alone.best[0].p == pytest.approx(2 / 70)
    assert alone.best[0].p < found.best[0].p
    picked = diagnostic_of(proposed(APART, warn=alone.best[0].levels.warn, critical=alone.best[0].levels.critical))
    assert admit(picked, branches, {}, seed=0, family=alone.family).admitted
    assert not admit(picked, branches, {}, seed=0, family=found.family).admitted
    assert (
        found.family_of(f"({APART})") == found.family
        and found.family_of("mean(tokens) + 1") == found.family_of("") == ()
    )
    assert screen(branches[:4], seed=0).best == () and screen([], seed=0).tried == 0


def test_backtest_of_a_diagnostic_ranks_branches_it_was_never_told_of(branches) -> None:
    some = [*branches, replace(branches[7], name="new", known=Known.UNKNOWN)]
    found = backtest_diagnostic(diagnostic_of(proposed(APART)), some, {})
    assert found.table.entries[-1].level in (Level.WARN, Level.CRITICAL) and found.separation.bad == 4
    assert found.prediction == 1.0


def test_review_keeps_revises_and_retires(branches) -> None:
    good = diagnostic_of(proposed(APART))
    assert review(good, branches[:5]).action == "keep"
    assert review(good, branches).action == "keep"
    deaf = replace(good, levels=Levels(5.0, 9.0))
    revised = review(deaf, branches)
    assert revised.action == "revise" and revised.left_out > revised.current == 0.5
    assert review(replace(good, levels=revised.levels), branches).action == "keep"
    wrong = diagnostic_of(proposed(f"-({APART})"))
    assert review(wrong, branches).action == "retire"
    silent = diagnostic_of(proposed("mean(no.such.column)"))
    assert "value on only 0%" in review(silent, branches).reason
    assert json.dumps(revised.to_dict())


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"id": "Not An Id"}, "joined by '-'"),
        ({"id": "a" * 80}, "at most 64"),
        ({"warn": float("nan")}, "finite number"),
        ({"critical": True}, "finite number"),
        ({"warn": "0.5"}, "finite number"),
        ({"term": "", "source_code": " "}, "either a term or source_code"),
        ({"source_code": "def measure(c): return 1"}, "either a term or source_code"),
        ({"term": "mean("}, "cannot be read"),
        ({"means": "x" * 3000}, "at most 2,000"),
        ({"title": None}, "must be a text"),
    ],
)
def test_a_proposal_that_is_none_says_what_is_wrong(changes: dict, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        diagnostic_of(replace(proposed(APART), **changes))


def test_outcomes_of_verdicts() -> None:
    assert known_of("promoted") is Known.GOOD and known_of("invalid") is Known.BAD
    assert known_of("rejected") is known_of("inconclusive") is known_of("rejected", high=0.1) is Known.UNKNOWN
    assert known_of("rejected", high=-0.01) is Known.BAD
