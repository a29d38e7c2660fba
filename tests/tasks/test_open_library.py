"""The shipped open problems: starts, known optima, refused answers, impossible claims, pictures and baselines."""

from __future__ import annotations

import importlib.util
import math
from fractions import Fraction
from itertools import combinations
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coevo.evaluation.judge import Judge
from coevo.evaluation.types import Outcome
from coevo.programs import Program
from coevo.tasks import list_tasks, load_task
from coevo.tasks.exact import Infeasible
from coevo.tasks.loader import LIBRARY
from coevo.tasks.types import Kind, Task

# What every start program scores on public instances. The platform's mathematics may differ in the last bits.
STARTS = {
    "circle_packing": 2.190060685,
    "circle_packing_26": 2.190060685,
    "circle_packing:n=27": 2.210998778,
    "circle_packing_32": 2.524603630,
    "distance_ratio": 15.44032863,
    "distance_ratio_plane_16": 15.44032863,
    "distance_ratio_space_14": 5.554875660,
    "heilbronn_triangle": 0.01023317780,
    "heilbronn_convex": 0.01179514550,
    "autocorrelation": 1.733591320,
    "erdos_overlap": 0.3865298286,
    "difference_basis": 74**2 / 1349,
    "bin_packing_uniform": None,
    "bin_packing_weibull": None,
    "sorting_network": 83,
    "cap_set": 256,
    "kissing_11": 220,
}


def judge_file(task: Task, name: str) -> ModuleType:
    path = task.folder / f"{name}.py"
    spec = importlib.util.spec_from_file_location(f"library_{task.folder.name}_{name}", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def score(task: str, answer: Any, **instance: Any) -> dict[str, Any]:
    return judge_file(load_task(task), "score").score(answer, instance)


def open_tasks() -> list[str]:
    return [name for name in list_tasks() if load_task(name).kind is Kind.OPEN]


def test_the_table_above_has_every_open_task() -> None:
    assert set(open_tasks()) == {name for name in STARTS if ":" not in name}


# --- Starts and statements ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", STARTS)
def test_start_is_valid_improvable_and_repeatable(name: str) -> None:
    task = load_task(name)
    with Judge(task) as judge:
        first = judge.evaluate(task.start, split="public", seed=1)
        again = judge.evaluate(task.start, split="public", seed=2)
        hidden = judge.evaluate(task.start, split="hidden", seed=1)
    assert first.outcome is Outcome.SCORED, first.reason
    assert hidden.outcome is Outcome.SCORED, hidden.reason
    assert first.score == again.score
    if STARTS[name] is not None:
        assert first.score == pytest.approx(STARTS[name], rel=1e-6)
        assert hidden.score == first.score
    else:
        assert hidden.score != first.score  # other draws
    assert first.fitness is not None and 0 < first.fitness < 0.99


@pytest.mark.parametrize("name", STARTS)
def test_statement_asks_but_does_not_tell(name: str) -> None:
    config = load_task(name).config
    assert config.best_known is not None and config.citation
    assert f"`{config.entry}(" in config.statement
    for text in (config.statement, config.title, *(text for _, text in load_task(name).start.files)):
        assert f"{config.best_known.value:.5g}" not in text.replace(",", "") or config.best_known.value in (60, 4)
        assert "{" not in text or text not in (config.statement, config.title)


@pytest.mark.parametrize("name", STARTS)
def test_start_marks_what_may_change_and_has_numbers_to_tune(name: str) -> None:
    source = load_task(name).start.source
    block = source.partition("# EVOLVE-BLOCK-START\n")[2].partition("# EVOLVE-BLOCK-END\n")[0]
    assert block and source.count("EVOLVE-BLOCK") == 2
    assert sum(line.split(" = ")[0].isupper() for line in block.splitlines() if not line.startswith(" ")) >= 2


@pytest.mark.parametrize("n", [2, 3, 5, 27, 28, 29, 30, 31, 60])
def test_circle_packing_of_any_n(n: int) -> None:
    task = load_task(f"circle_packing:n={n}")
    assert f"Place {n} circles" in task.config.statement
    assert task.config.instances == {"public": [{"n": n}]}
    assert (task.config.best_known is not None) == (27 <= n <= 31)
    start = judge_file(task, "program").pack(n)
    result = score(task.name, start, n=n)
    assert 0.4 < result["score"] <= math.sqrt(n / math.pi)


# --- Known optima, by hand ------------------------------------------------------------------------------------

GREEN_16 = """
0-1 2-3 4-5 6-7 8-9 10-11 12-13 14-15 0-2 1-3 4-6 5-7 8-10 9-11 12-14 13-15 0-4 1-5 2-6 3-7 8-12 9-13 10-14 11-15
0-8 1-9 2-10 3-11 4-12 5-13 6-14 7-15 5-10 6-9 3-12 13-14 4-8 7-11 1-2 1-4 7-13 2-8 11-14 2-4 5-6 9-10 11-13 3-8
7-12 6-8 10-12 3-5 7-9 3-4 5-6 7-8 9-10 11-12 6-7 8-9
"""


@pytest.mark.parametrize(
    ("task", "answer", "instance", "value"),
    [
        ("circle_packing", [[x, y, 0.25] for x in (0.25, 0.75) for y in (0.25, 0.75)], {"n": 4}, 1.0),
        ("distance_ratio", [[0, 0], [1, 0], [1, 1], [0, 1]], {"n": 4, "dimension": 2}, 2.0),
        ("distance_ratio", [[1, 1, 1], [1, 0, 0], [0, 1, 0], [0, 0, 1]], {"n": 4, "dimension": 3}, 1.0),
        ("heilbronn_triangle", [[0, 0], [1, 0], [0, 1]], {"n": 3}, 1.0),
        ("heilbronn_convex", [[0, 0], [1, 0], [1, 1], [0, 1]], {"n": 4}, 0.5),
        ("autocorrelation", [3.0] * 8, {"n": 8}, 2.0),
        ("erdos_overlap", [0.5] * 2, {"n": 2}, 0.5),
        ("difference_basis", [4, 6, 1, 0], {"least": 6}, math.nextafter(8 / 3, 3)),
        ("sorting_network", [[0, 1], [2, 3], [0, 2], [1, 3], [1, 2]], {"n": 4}, 5.0),
        ("sorting_network", [tuple(map(int, c.split("-"))) for c in GREEN_16.split()], {"n": 16}, 60.0),
        ("cap_set", [[0, 0], [0, 1], [1, 0], [1, 1]], {"n": 2}, 4.0),
        ("kissing_11", [[1, 1, 0], [1, 0, 1], [0, 1, 1], [1, -1, 0], [1, 0, -1], [0, 1, -1]], {"dimension": 3}, 6.0),
    ],
)
def test_a_known_value_is_scored_exactly(task: str, answer: Any, instance: dict[str, int], value: float) -> None:
    assert score(task, answer, **instance)["score"] == value


# --- Refused answers ------------------------------------------------------------------------------------------

NAN = math.nan


@pytest.mark.parametrize(
    ("task", "answer", "instance", "message"),
    [
        ("circle_packing", None, {"n": 2}, "circles must be a list, not None"),
        ("circle_packing", [[0.5, 0.5, 0.1]], {"n": 2}, "circles must have 2 rows, not 1"),
        ("circle_packing", [[NAN, NAN, 9.0]] * 2, {"n": 2}, r"circles\[0\]\[0\] is nan"),
        ("circle_packing", [[0.5, 0.5, 0.1], [0.5, 0.5, -4.0]], {"n": 2}, "circle 1 has the negative radius -4.0"),
        ("circle_packing", [[0.5, 0.5, 0.1], [1.5, 0.5, 0.1]], {"n": 2}, r"circle 1, \(1.5, 0.5\), is outside"),
        ("distance_ratio", [[0.1, 0.2]] * 3, {"n": 3, "dimension": 2}, "points 0 and 1 are the same"),
        ("distance_ratio", [[0, 0], [1, math.inf], [2, 2]], {"n": 3, "dimension": 2}, r"points\[1\]\[1\] is inf"),
        ("heilbronn_triangle", [["0", 0]] * 3, {"n": 3}, r"points\[0\]\[0\] must be a number, not the str"),
        ("heilbronn_convex", [[0, 0], [1, 1], [2, 2]], {"n": 3}, "all points lie on one line"),
        ("autocorrelation", [1.0, -0.5, 1.0], {"n": 3}, r"heights\[1\] is -0.5; heights must not be negative"),
        ("autocorrelation", [0.0, 0.0], {"n": 2}, "no height is positive"),
        ("autocorrelation", [1.0], {"n": 2}, "heights must have 2 entries, not 1"),
        ("erdos_overlap", [0.5, 1.5], {"n": 2}, r"heights\[1\] is 1.5; it must be in \[0, 1\]"),
        ("erdos_overlap", [0.5, NAN], {"n": 2}, r"heights\[1\] is nan"),
        ("difference_basis", [0, 1, 4, 6, 6], {"least": 6}, "6 is in the basis twice"),
        ("difference_basis", [0, 1, 4, 6], {"least": 9}, "7 is not a difference, so v = 6; it must be at least 9"),
        ("difference_basis", [0, 1, 4.0, 6], {"least": 6}, r"basis\[2\] must be an integer, not the float"),
        ("difference_basis", [0, 10**9], {"least": 6}, r"basis\[1\] is 1000000000; it must be in 0..2000000"),
        ("difference_basis", list(range(1501)), {"least": 6}, "1501 elements"),
        ("sorting_network", [[0, 1], [1, 2]], {"n": 3}, r"2 comparators does not sort the input \[1, 1, 0\]"),
        ("sorting_network", [[1, 0]], {"n": 2}, r"network\[0\] is \[1, 0\]; the first wire must be below"),
        ("sorting_network", [[0, 2]], {"n": 2}, r"network\[0\]\[1\] is 2; it must be in 0..1"),
        ("sorting_network", [[0, 1]] * 1001, {"n": 2}, "1001 comparators; at most 1000"),
        ("cap_set", [[0, 0], [1, 1], [2, 2]], {"n": 2}, r"cap\[0\], cap\[1\] and cap\[2\] lie on a line"),
        ("cap_set", [[0, 1], [0, 1]], {"n": 2}, r"cap\[0\] and cap\[1\] are the same vector \[0, 1\]"),
        ("cap_set", [[0, 3]], {"n": 2}, r"cap\[0\]\[1\] is 3; it must be in 0..2"),
        ("kissing_11", [[2, 0], [1, 1]], {"dimension": 2}, "squared distance 2, less than the squared length 4"),
        ("kissing_11", [[1, 0], [0, 0]], {"dimension": 2}, r"centres\[1\] is the zero vector"),
        ("kissing_11", [[10**15 + 1, 0]], {"dimension": 2}, "must be in -1000000000000000..1000000000000000"),
        ("kissing_11", [], {"dimension": 2}, "there are 0 vectors"),
    ],
)
def test_an_invalid_answer_is_refused_with_the_place(task: str, answer: Any, instance: Any, message: str) -> None:
    with pytest.raises(Infeasible, match=message):
        score(task, answer, **instance)


# --- Claims that lean on tolerance ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def good_packing() -> list[list[float]]:
    """26 circles near a local optimum: one descent of the baseline from a fixed start."""
    import numpy as np

    baseline = judge_file(load_task("circle_packing_26"), "baseline")
    rng = np.random.default_rng(7)
    start = np.concatenate([rng.random(52), np.full(26, 0.06)])
    rows, total = baseline.valid(baseline.polish(start, 26, baseline.constraints(26), 200), 26)
    assert total > 2.5
    return rows.tolist()


@pytest.mark.parametrize("slack", [1e-12, 1e-9, 1e-7, 1e-3])
def test_an_inflated_packing_is_credited_what_is_left_after_the_shrink(good_packing: Any, slack: float) -> None:
    honest = score("circle_packing", good_packing, n=26)["score"]
    inflated = [[x, y, r + slack] for x, y, r in good_packing]
    claimed = math.fsum(row[2] for row in inflated)
    result = score("circle_packing", inflated, n=26)
    assert claimed > honest + 25 * slack
    assert result["claimed"] == pytest.approx(claimed, abs=1e-15)
    assert result["shrink"] == pytest.approx(slack, rel=1e-3)
    assert result["score"] <= honest + 1e-12  # the descent itself leaves a margin of some 1e-15 a circle
    assert "overlap" in result["feedback"] or "sticks out" in result["feedback"]


@given(st.lists(st.floats(-1e-6, 1e-6), min_size=26, max_size=26))
@settings(max_examples=25, deadline=None)
def test_no_perturbation_of_the_radii_is_credited_without_being_valid(good_packing: Any, changes: list[float]) -> None:
    rows = [[x, y, max(r + d, 0.0)] for (x, y, r), d in zip(good_packing, changes, strict=True)]
    result = score("circle_packing", rows, n=26)
    shrunk = [[Fraction(x), Fraction(y), Fraction(r) - Fraction(result["shrink"])] for x, y, r in rows]
    for (x, y, r), (u, v, s) in combinations(shrunk, 2):
        assert (x - u) ** 2 + (y - v) ** 2 >= (r + s) ** 2
    assert all(r <= min(x, 1 - x, y, 1 - y) for x, y, r in shrunk)
    assert Fraction(result["score"]) <= sum(r for _, _, r in shrunk) + 26 * Fraction(2, 2**70)


def test_points_outside_the_triangle_gain_nothing() -> None:
    inside = [[0.1, 0.1], [0.8, 0.1], [0.1, 0.8], [0.3, 0.35]]
    honest = score("heilbronn_triangle", inside, n=4)["score"]
    for stretch in (1.5, 2.0, 100.0):
        moved = [[1 / 3 + stretch * (x - 1 / 3), 1 / 3 + stretch * (y - 1 / 3)] for x, y in inside]
        result = score("heilbronn_triangle", moved, n=4)
        assert result["scaled_by"] < 1 and "outside the triangle" in result["feedback"]
        assert result["score"] == pytest.approx(honest / 0.7**2, rel=1e-9)  # 1 / 0.7: the corners then touch the sides


@given(st.lists(st.floats(0, 1e6), min_size=12, max_size=12).filter(any))
@settings(deadline=None)
def test_no_step_function_beats_the_proved_bound_of_the_autocorrelation(heights: list[float]) -> None:
    value = score("autocorrelation", heights, n=12)["score"]
    assert value >= 1.28  # Cloninger and Steinerberger 2017
    conv = [Fraction(0)] * 23
    for i, a in enumerate(heights):
        for j, b in enumerate(heights):
            conv[i + j] += Fraction(a) * Fraction(b)
    exact = 24 * max(conv) / sum(map(Fraction, heights)) ** 2
    assert value == pytest.approx(float(exact), rel=1e-12)


@given(st.lists(st.floats(-1e-10, 1 + 1e-10), min_size=10, max_size=10))
@settings(deadline=None)
def test_no_step_function_beats_the_proved_bound_of_the_overlap(heights: list[float]) -> None:
    value = score("erdos_overlap", heights, n=10)["score"]
    assert value >= 0.379005  # White 2022
    h = [min(max(Fraction(x), Fraction(0)), Fraction(1)) for x in heights]
    total = sum(h)
    if total > 5:
        h = [x * 5 / total for x in h]
    elif total < 5:
        h = [x + (1 - x) * (5 - total) / (10 - total) for x in h]
    assert sum(h) == 5 and all(0 <= x <= 1 for x in h)
    overlap = max(sum(h[i] * (1 - h[i + k]) for i in range(10) if 0 <= i + k < 10) for k in range(-9, 10))
    assert value == pytest.approx(float(overlap / 5), rel=1e-12)


@given(st.lists(st.integers(0, 60), min_size=3, max_size=14, unique=True))
def test_difference_basis_agrees_with_a_set_of_differences(marks: list[int]) -> None:
    differences = {abs(a - b) for a, b in combinations(marks, 2)}
    v = next(d - 1 for d in range(1, 100) if d not in differences)
    if v == 0:
        with pytest.raises(Infeasible, match=r"^1 is not a difference"):
            score("difference_basis", marks, least=1)
    else:
        assert score("difference_basis", marks, least=1)["v"] == v


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)).filter(lambda c: c[0] < c[1]), max_size=14))
def test_sorting_network_agrees_with_sorting_every_input(network: list[tuple[int, int]]) -> None:
    def run(values: list[int]) -> list[int]:
        for i, j in network:
            values[i], values[j] = min(values[i], values[j]), max(values[i], values[j])
        return values

    unsorted = [x for x in range(32) if run(bits := [x >> w & 1 for w in range(5)]) != sorted(bits)]
    if unsorted:
        with pytest.raises(Infeasible, match=r"does not sort the input \[[01], ") as caught:
            score("sorting_network", network, n=5)
        witness = [int(bit) for bit in str(caught.value).rpartition("[")[2][:-1].split(",")]
        assert run(list(witness)) != sorted(witness)
    else:
        assert score("sorting_network", network, n=5)["score"] == len(network)


@given(st.sets(st.tuples(*[st.integers(0, 2)] * 3), max_size=10))
def test_cap_set_agrees_with_a_look_at_all_triples(vectors: set[tuple[int, ...]]) -> None:
    lines = [t for t in combinations(vectors, 3) if all(sum(x) % 3 == 0 for x in zip(*t, strict=True))]
    if lines:
        with pytest.raises(Infeasible, match="lie on a line"):
            score("cap_set", list(vectors), n=3)
    else:
        assert score("cap_set", list(vectors), n=3)["score"] == len(vectors)


@given(st.lists(st.tuples(*[st.integers(-3, 3)] * 3).filter(any), min_size=2, max_size=6), st.sampled_from([1, 10**12]))
def test_kissing_agrees_with_a_look_at_all_pairs(vectors: list[tuple[int, ...]], scale: int) -> None:
    longest = max(sum(x * x for x in v) for v in vectors)
    valid = all(sum((x - y) ** 2 for x, y in zip(v, w, strict=True)) >= longest for v, w in combinations(vectors, 2))
    answer = [[scale * x for x in v] for v in vectors]
    if valid:
        assert score("kissing_11", answer, dimension=3)["score"] == len(vectors)
    else:
        with pytest.raises(Infeasible, match="less than the squared length"):
            score("kissing_11", answer, dimension=3)


# --- Baselines and pictures -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", [name for name in STARTS if not name.startswith(("circle_packing_", "distance_ratio_plane"))]
)
def test_baseline_gives_a_valid_answer_and_a_picture_is_drawn_of_it(name: str, tmp_path: Path) -> None:
    task = load_task(name)
    with Judge(task) as judge:
        found = judge.baseline(0.3, split="public", seed=1)
        instance = judge.inner.instances("public")[0]  # type: ignore[union-attr]
    assert found.outcome is Outcome.SCORED, found.reason
    assert found.fitness is not None and found.fitness <= 1 + 1e-9
    if not (task.folder / "draw.py").is_file():
        return
    figure_module = pytest.importorskip("matplotlib.figure", reason="pictures need matplotlib")
    figure = figure_module.Figure(figsize=(4, 4))
    judge_file(task, "draw").draw(found.extra["output"], instance, figure.add_subplot())
    figure.savefig(tmp_path / "picture.png", dpi=80)
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


def test_every_open_task_has_a_baseline_and_the_geometric_ones_a_picture() -> None:
    for name in open_tasks():
        task = load_task(name)
        assert task.baseline is not None, name
        if "geometry" in task.config.tags and name != "kissing_11":
            assert (task.folder / "draw.py").is_file(), name
    assert len({load_task(name).folder for name in open_tasks()}) >= 10
    assert all((LIBRARY / name).is_dir() for name in open_tasks())


def test_a_program_that_raises_is_told_where() -> None:
    task = load_task("cap_set")
    with Judge(task) as judge:
        bad = judge.evaluate(Program.of("def cap(n):\n    return [[0] * n, [0] * n]\n"), split="public", seed=1)
    assert bad.outcome is Outcome.FAILED and bad.score is None
    assert "cap[0] and cap[1] are the same vector" in bad.feedback
