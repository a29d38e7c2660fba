"""The grammar: what is read is what is written, values are those of plain numpy, and nothing that is typed can do more than be wrong."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coevo.backtest import Term, candidates
from coevo.backtest.syntax import FUNCTIONS, Apply, Column, Node, Number, Word, parse, write
from coevo.errors import UsageError
from coevo.evidence import frame_of
from coevo.evidence.types import Frame
from coevo.streams import array_stream


def frame(seed: int = 0, rows: int = 240, hole: float = 0.1) -> Frame:
    rng = array_stream(seed, "rows")
    made = []
    for i in range(rows):
        step = i * 12 // rows
        row = {
            "step": step,
            "group": f"{step}.{i % 3}",
            "task": f"t{i % 4}",
            "split": "train",
            "run": "r",
            "reward": float(rng.integers(0, 3)),
            "truth": float(rng.normal()),
            "tokens": int(rng.integers(1, 50)) + 3 * step,
            "kept": bool(rng.integers(0, 2)),
            "stop_reason": ["stop", "length"][int(rng.integers(0, 2))],
            "parts": {"format": float(rng.integers(0, 2)), "odd name": 1.0},
        }
        made.append(
            {
                name: None
                if name != "step" and rng.random() < hole and name not in ("group", "split", "run")
                else value
                for name, value in row.items()
            }
        )
    return frame_of(made)


FRAME = frame()
NUMBERS = st.floats(-1e6, 1e6).map(lambda x: Number(x + 0.0))
COLUMNS = st.sampled_from(
    ["reward", "truth", "tokens", "kept", "parts.format", "parts.odd name", "step", "none.such"]
).map(Column)
PAIRS = st.sampled_from(["+", "-", "*", "/", "<", "<=", ">", ">=", "==", "!=", "and", "or"])


def _negative(tree: Node) -> Node:
    return Number(-tree.value) if isinstance(tree, Number) else Apply("neg", (tree,))


def _wider(inner: st.SearchStrategy[Node], other: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
    return st.one_of(
        st.builds(lambda name, a, b: Apply(name, (a, b)), PAIRS, inner, other),
        st.builds(lambda name, a, b: Apply(name, (b, a)), PAIRS, inner, other),
        inner.map(_negative),
        inner.map(lambda a: Apply("not", (a,))),
        inner.map(lambda a: Apply("abs", (a,))),
    )


ROWS = st.recursive(
    st.one_of(
        COLUMNS,
        COLUMNS.map(lambda c: Apply("missing", (c,))),
        st.sampled_from(["stop", 'a "quoted" one', "back\\slash"]).map(
            lambda w: Apply("==", (Column("stop_reason"), Word(w)))
        ),
    ),
    lambda inner: st.one_of(
        _wider(inner, st.one_of(inner, NUMBERS)),
        inner.map(lambda a: Apply("centred", (a,))),
        st.builds(lambda a, b: Apply("where", (a, b)), inner, inner),
    ),
    max_leaves=5,
)
ONE_NAMES = [name for name, f in FUNCTIONS.items() if f.kind == "one" and f.arity == 1]
OVER_ROWS = st.one_of(
    st.builds(lambda name, a: Apply(name, (a,)), st.sampled_from(ONE_NAMES), ROWS),
    st.builds(lambda name, a, b: Apply(name, (a, b)), st.sampled_from(["corr", "rank_corr", "ratio"]), ROWS, ROWS),
    st.builds(lambda a, q: Apply("quantile", (a, Number(q))), ROWS, st.floats(0, 1)),
    st.just(Apply("distinct", (Column("stop_reason"),))),
)
BY = st.builds(lambda by, a: Apply(by, (a,)), st.sampled_from(["by_group", "by_step", "by_task"]), OVER_ROWS)
TERMS = st.recursive(
    st.one_of(
        OVER_ROWS,
        st.builds(lambda name, a: Apply(name, (a,)), st.sampled_from(ONE_NAMES), BY),
        st.builds(lambda name, a: Apply(name, (a,)), st.sampled_from(["early", "late", "drift"]), OVER_ROWS),
    ),
    lambda inner: _wider(inner, st.one_of(inner, NUMBERS)),
    max_leaves=4,
)


@given(TERMS)
@settings(max_examples=150, deadline=None)
def test_a_term_is_read_as_it_is_written_and_has_a_value_or_none(tree: Node) -> None:
    text = write(tree)
    assert parse(text) == tree
    assert str(Term.parse(text)) == text
    value = Term(tree).evaluate(FRAME)
    assert math.isnan(value) or math.isfinite(value)
    for step, point in Term(tree).course(FRAME):
        assert 0 <= step <= 11 and math.isfinite(point)


@given(TERMS, st.integers(0, 5))
@settings(max_examples=40, deadline=None)
def test_the_order_of_rows_says_nothing(tree: Node, seed: int) -> None:
    order = array_stream(seed, "order").permutation(FRAME.rows)
    rows = FRAME.excerpt(order.tolist())
    a, b = Term(tree).evaluate(FRAME), Term(tree).evaluate(frame_of(rows))
    assert (math.isnan(a) and math.isnan(b)) or a == pytest.approx(b, rel=1e-6, abs=1e-6)


def _col(name: str) -> np.ndarray:
    return FRAME.numbers(name)


def _grouped(name: str, reduce) -> list[float]:
    found = []
    for g in np.unique(FRAME.groups):
        values = _col(name)[FRAME.groups == g]
        values = values[np.isfinite(values)]
        if len(values):
            found.append(reduce(values))
    return found


def _third(name: str, late: bool) -> float:
    values = _col(name)[_col("step") >= 8 if late else _col("step") < 4]
    return float(np.nanmean(values))


def _corr(a: np.ndarray, b: np.ndarray) -> float:
    both = np.isfinite(a) & np.isfinite(b)
    return float(np.corrcoef(a[both], b[both])[0, 1])


STOPPED = FRAME.words("stop_reason").codes >= 0
LENGTH = FRAME.is_word("stop_reason", "length")
VALUES = {
    "mean(truth)": lambda: np.nanmean(_col("truth")),
    "sd(truth)": lambda: np.nanstd(_col("truth"), ddof=1),
    "quantile(tokens, 0.9)": lambda: np.nanquantile(_col("tokens"), 0.9),
    "most(tokens) - least(tokens)": lambda: np.nanmax(_col("tokens")) - np.nanmin(_col("tokens")),
    "spread(tokens) / 2": lambda: (np.nanmax(_col("tokens")) - np.nanmin(_col("tokens"))) / 2,
    'share(stop_reason == "length")': lambda: LENGTH[STOPPED].mean(),
    'share(stop_reason != "length")': lambda: 1 - LENGTH[STOPPED].mean(),
    "share(missing(truth))": lambda: np.isnan(_col("truth")).mean(),
    "share(missing(stop_reason))": lambda: 1 - STOPPED.mean(),
    "corr(tokens, truth)": lambda: _corr(_col("tokens"), _col("truth")),
    "ratio(tokens, tokens * 2)": lambda: 0.5,
    "mean(where(truth, reward > 0))": lambda: np.nanmean(_col("truth")[_col("reward") > 0]),
    "mean(by_group(sd(truth)))": lambda: np.nanmean(
        _grouped("truth", lambda v: v.std(ddof=1) if len(v) > 1 else np.nan)
    ),
    "median(by_group(most(truth)))": lambda: np.median(_grouped("truth", np.max)),
    "share(by_group(spread(reward)) <= 1)": lambda: np.mean([x <= 1 for x in _grouped("reward", np.ptp)]),
    "mean(centred(truth) * centred(truth))": lambda: np.average(
        _grouped("truth", np.var), weights=_grouped("truth", len)
    ),
    "drift(mean(tokens))": lambda: _third("tokens", True) - _third("tokens", False),
    "late(mean(tokens)) - early(mean(tokens))": lambda: _third("tokens", True) - _third("tokens", False),
    "distinct(task)": lambda: 4 / (FRAME.words("task").codes >= 0).sum(),
    "mean(by_group(share(truth > mean(truth))))": lambda: np.mean(_grouped("truth", lambda v: (v > v.mean()).mean())),
}


@pytest.mark.parametrize("text", VALUES)
def test_values_are_those_of_numpy(text: str) -> None:
    assert Term.parse(text).evaluate(FRAME) == pytest.approx(float(VALUES[text]()), rel=1e-9)


def test_rank_correlation_is_scipys() -> None:
    from scipy import stats

    both = np.isfinite(_col("reward")) & np.isfinite(_col("truth"))
    wanted = stats.spearmanr(_col("reward")[both], _col("truth")[both]).statistic
    assert Term.parse("rank_corr(reward, truth)").evaluate(FRAME) == pytest.approx(wanted)


@pytest.mark.parametrize(
    "text",
    [
        "mean(nothing)",
        "drift(mean(nothing))",
        "corr(reward, nothing)",
        "corr(reward, reward * 0 + 1)",
        "mean(reward) / (mean(reward) * 0)",
        'share(nothing == "x")',
    ],
)
def test_what_the_evidence_does_not_say_is_nan(text: str) -> None:
    assert math.isnan(Term.parse(text).evaluate(FRAME))


def test_early_and_late_take_steps() -> None:
    term = Term.parse("drift(mean(tokens))")
    assert math.isnan(term.evaluate(FRAME.where(_col("step") < 5)))
    assert math.isfinite(term.evaluate(FRAME.where(_col("step") < 6)))
    assert math.isnan(term.evaluate(frame_of([])))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("reward", "wrap it"),
        ("meen(reward)", "Did you mean 'mean'"),
        ("mean(run)", "where a rollout came from"),
        ('mean(branch == "b3")', "where a rollout came from"),
        ("mean(response)", "text.NAME"),
        ("mean(stop_reason)", "holds words"),
        ('share(reward == "x")', "holds numbers"),
        ('share("x" < stop_reason)', "by == or !="),
        ("corr(reward, by_step(mean(truth)))", "mixes values for rows and for step"),
        ("by_group(drift(mean(reward)))", "cannot stand inside by_group"),
        ("early(reward)", "wants one number"),
        ("mean(1)", "wants a column"),
        ("quantile(reward, 2)", "from 0 to 1"),
        ("mean(reward, truth)", "takes 1 argument"),
        ("__import__('os').system('true')", "not part of the language"),
        ("(lambda: 1)()", "not part of the language"),
        ("mean(reward) if 1 else 2", "not part of the language"),
        ("mean(x[0])", "not part of the language"),
        ("mean(*reward)", "not part of the language"),
        ("mean(reward) ** 9", "not part of the language"),
        ("mean(1e999 * reward)", "too large"),
        ("mean(reward", "never closed"),
        ("", "cannot be read"),
        ("mean(a" + " + a" * 70 + ")", "parts|nested"),
        ("-" * 60 + "mean(a)", "nested deeper"),
        ("mean(" + "a" * 2000 + ")", "limit"),
    ],
)
def test_what_is_wrong_is_said(text: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        Term.parse(text)


@given(st.one_of(st.text(max_size=60), st.text(alphabet="mean(reward).+-*/<>=!,\"' \n\\01notandor", max_size=60)))
@settings(max_examples=150, deadline=None)
def test_any_text_is_a_term_or_a_usage_error(text: str) -> None:
    try:
        term = Term.parse(text)
    except UsageError:
        return
    assert Term.parse(str(term)) == term


def test_candidates_are_terms_bounded_and_always_the_same() -> None:
    columns = (
        *FRAME.columns,
        "fitness",
        "parent_fitness",
        "contract_ok",
        "meaning_ok",
        "text.chars",
        "text.shape",
        "program_hash",
        "odd one",
    )
    found = candidates(columns)
    assert found == candidates(columns) and len(found) == len(set(found)) > 60
    assert candidates(columns, most=7) == found[:7]
    assert Term.parse("drift(mean(reward)) - drift(mean(truth))") in found[:3]
    for term in found:
        assert set(term.columns) <= set(columns) - {"run", "branch"}
    assert candidates([]) == []
