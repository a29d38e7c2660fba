"""The diagnostics of behaviour on rows of any kind, and what they show."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coevo.diagnostics.casebook import coin, rows_of
from coevo.diagnostics.diagnose import diagnose
from coevo.diagnostics.prose import fenced, program, words
from coevo.diagnostics.registry import shipped
from coevo.diagnostics.types import Layer, Level
from coevo.evidence import frame_of

BEHAVIOUR = {id: d for id, d in shipped().items() if d.layer is Layer.BEHAVIOUR}

numbers = st.one_of(st.none(), st.booleans(), st.integers(-3, 10**6), st.floats(width=32))
texts = st.one_of(
    st.none(),
    st.sampled_from(
        ["", "a b c d e f g h i", fenced("def f():\n    return 1"), "$ git log\n$ sed -i s/a/b/ x.py", "x" * 300]
    ),
)
columns = {
    **dict.fromkeys(("step", "reward", "truth", "meaning_ok", "tokens", "turns", "tool_calls", "tool_errors"), numbers),
    **dict.fromkeys(
        ("task", "group", "stop_reason", "program_hash", "unmeasured_reason"),
        st.sampled_from([None, "", "a", "b", "length", "stop"]),
    ),
    **dict.fromkeys(("prompt", "response"), texts),
}


@settings(max_examples=120, deadline=None)
@given(st.lists(st.fixed_dictionaries({}, optional=columns), min_size=1, max_size=40), st.integers(1, 8))
def test_no_rows_make_them_fail(rows: list[dict], copies: int) -> None:
    frame = frame_of([{**row, "step": row.get("step", i)} for i in range(copies) for row in rows])
    for finding in diagnose(frame, diagnostics=BEHAVIOUR).findings:
        assert "it failed" not in finding.reading.note and "no finite number" not in finding.reading.note, finding
        assert all(0 <= row < frame.rows for row in finding.reading.rows)


@pytest.mark.parametrize("id", BEHAVIOUR)
def test_rows_that_are_shown_are_those_it_speaks_of(id: str) -> None:
    """Order does not matter, and rows of a frame that was cut are numbered as in the source."""
    case = next(c for c in BEHAVIOUR[id].cases if c.level is Level.CRITICAL)
    rows = list(case.rows())
    padded = frame_of([{"step": 1, "split": "other", "response": "a"}] * 7 + rows).split("train")
    plain = frame_of(rows)
    a, b = BEHAVIOUR[id].measure(padded, None), BEHAVIOUR[id].measure(plain, None)
    assert a.value == pytest.approx(b.value) and a.note == b.note
    assert [row - 7 for row in a.rows] == list(b.rows)


def test_what_is_shown_of_a_truncated_run_was_truncated() -> None:
    rows = rows_of(lambda s: {"stop_reason": "length" if coin(s, 0.4) else "stop", "reward": 0.0})()
    shown = BEHAVIOUR["truncation"].measure(frame_of(rows), None).rows
    assert len(shown) == 5 and all(rows[i]["stop_reason"] == "length" for i in shown)


def test_similarity_within_and_across_tasks_is_that_of_the_texts() -> None:
    """Half of every response is fixed for its task: two of one task share it, two of different tasks nothing."""
    fixed = {g: " ".join(f"t{g}w{i}" for i in range(60)) for g in range(4)}
    rows = rows_of(
        lambda s: {
            "response": f"{fixed[s.group]} {' '.join(f'u{v}' for v in s.rng.integers(10**9, size=60))}",
            "reward": 0.0,
        },
        steps=30,
    )()
    reading = BEHAVIOUR["template-collapse"].measure(frame_of(rows), None)
    assert reading.value == pytest.approx(0.0, abs=1e-9)
    within = float(reading.note.split("same task ")[1].split("%")[0]) / 100
    assert within == pytest.approx(58 / (58 + 120), abs=0.08)


@pytest.mark.parametrize("kinds", [1, 2, 4, 8, 10**6])
def test_diversity_counts_programs(kinds: int) -> None:
    rows = rows_of(lambda s: {"response": f"{words(s, 5)}\n{fenced(program(s, kinds))}", "reward": 0.0}, steps=12)()
    expected = (kinds * (1 - (1 - 1 / kinds) ** 8) - 1) / 7
    assert BEHAVIOUR["solution-diversity"].measure(frame_of(rows), None).value == pytest.approx(expected, abs=0.06)


def test_a_ratio_of_lengths_is_of_the_same_group() -> None:
    rng = np.random.default_rng(0)
    rows = [
        {
            "step": s,
            "group": f"{s}.{g}",
            "task": f"t{g}",
            "reward": float(i % 2),
            "tokens": int(100 * 4**g * (3 if i % 2 == 0 else 1) * rng.uniform(0.9, 1.1)),
        }
        for s in range(12)
        for g in range(4)
        for i in range(8)
    ]
    assert BEHAVIOUR["length-gap"].measure(frame_of(rows), None).value == pytest.approx(3.0, abs=0.1)
