"""The algebra of every reward, and functions of the user's own that misbehave."""

import math
from contextlib import closing
from dataclasses import replace
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coevo.config import parse
from coevo.errors import ConfigError
from coevo.evolution.edits import apply_rewrite
from coevo.programs import Program
from coevo.training.novelty import distance, sketch
from coevo.training.own import OwnRewards, own_digests
from coevo.training.rewards import BOUND, PARTS, gain, reward_of
from coevo.training.settings import RewardConfig, RewardName
from coevo.training.types import Sample

UNIT = st.floats(0, 1)
SOURCE = "def f(a):\n    return sorted(a)[:3]\n"


@st.composite
def samples(draw):
    """Any sample an episode can make."""
    kind = draw(st.sampled_from(["program", "none", "unchanged"]))
    has = kind == "program"
    return Sample(
        parent_fitness=draw(UNIT),
        fitness=draw(UNIT) if has else None,
        correctness=draw(st.one_of(st.none(), st.sampled_from([0.0, 0.5, 1.0]))) if has else None,
        efficiency=draw(st.one_of(st.none(), UNIT)) if has else None,
        parent_correctness=draw(st.sampled_from([0.5, 1.0])),
        parent_efficiency=draw(UNIT),
        contract_ok=has,
        rejection="" if has else draw(st.sampled_from(["empty", "syntax"])) if kind == "none" else "unchanged",
        program_hash=draw(st.sampled_from("abcd")) if has else "",
        parent_hash="a",
        history=frozenset("b"),
        known=frozenset("c"),
        source=draw(st.sampled_from([SOURCE, "def f(a):\n    return a\n", "x = 1\n"])) if has else "",
        tokens=draw(st.integers(0, 200)),
        max_tokens=draw(st.sampled_from([0, 100])),
    )


def one(sample, name, **config):
    [scored] = reward_of(RewardConfig(parts={name: 1.0}, **config))([sample])
    assert scored.reward is not None
    return scored.reward


def made(new, parent=0.5, **more):
    return Sample(parent, new, program_hash="new", parent_hash="a", source=SOURCE, **more)


def copied(parent=0.5):
    """What the parser makes of a reply that hands the parent back."""
    return Sample(parent, None, contract_ok=False, rejection="unchanged", parent_hash="a")


def empty(parent=0.5):
    return Sample(parent, None, contract_ok=False, rejection="empty", parent_hash="a")


def test_every_name_of_the_recipe_is_a_part():
    assert {*PARTS, "novelty"} == set(get_args(RewardName))


@given(
    st.lists(samples(), min_size=1, max_size=5),
    st.dictionaries(st.sampled_from(get_args(RewardName)), st.floats(0.1, 3)),
)
def test_a_reward_is_finite_and_the_sum_of_its_parts(group, parts):
    if not parts:
        return
    for scored in reward_of(RewardConfig(parts=parts))(group):
        assert scored.reward is not None and math.isfinite(scored.reward) and not scored.reason
        assert scored.reward == pytest.approx(math.fsum(scored.parts.values()))
        assert set(scored.parts) == set(parts)


@given(samples())
def test_metaevolve_is_the_gain_or_the_floor(sample):
    change = gain(sample, RewardConfig())
    expected = -1.0 if change is None or change < 0 else change
    assert one(sample, "metaevolve") == expected


def test_metaevolve_pays_the_copy_more_than_a_regression():
    assert one(copied(), "metaevolve") == 0.0
    assert one(made(0.4999), "metaevolve") == -1.0
    assert one(made(0.4999), "metaevolve", tolerance=0.001) == 0.0
    assert one(empty(), "metaevolve", no_program=-2.0) == -2.0


@given(samples())
def test_search_gain_is_the_positive_part_of_the_difference(sample):
    assert one(sample, "search_gain") == max(0.0, one(sample, "difference"))


@given(samples())
def test_absolute_is_difference_shifted_by_the_parent(sample):
    assert one(sample, "absolute") == pytest.approx(one(sample, "difference") + sample.parent_fitness)


@given(samples(), samples(), st.sampled_from([-1.0, -0.3, 0.0]))
def test_lazy_never_pays_a_copy_more_than_trying(sample, other, no_program):
    """Whatever an honest attempt at the same parent comes to, no copy of parent, history or archive earns more."""
    honest = replace(made(other.fitness or 0.0), parent_fitness=sample.parent_fitness)
    for hash_ in "abc":
        copy = replace(made(sample.fitness or 0.0), parent_fitness=sample.parent_fitness, program_hash=hash_)
        copy = replace(copy, history=frozenset("b"), known=frozenset("c"))
        assert one(copy, "lazy", no_program=no_program) == no_program
        assert one(copy, "lazy", no_program=no_program) <= one(honest, "lazy", no_program=no_program)
    assert one(copied(), "lazy", no_program=no_program) == no_program


def test_lazy_is_the_gain_of_a_new_program():
    assert one(made(0.8), "lazy") == pytest.approx(0.3)
    assert one(made(0.1), "lazy") == pytest.approx(-0.4)
    assert one(made(0.1), "lazy", no_program=-0.2) == -0.2


def test_a_copy_has_its_parents_fitness_whatever_the_clock_says():
    remeasured = replace(made(0.53), program_hash="a")
    assert [one(remeasured, name) for name in ("difference", "search_gain", "metaevolve")] == [0.0, 0.0, 0.0]
    assert one(remeasured, "absolute") == 0.5


def test_efficiency_counts_only_for_right_programs():
    assert one(made(0.9, correctness=1.0, efficiency=0.7), "efficiency_only_if_correct") == 0.7
    assert one(made(0.9, correctness=0.9, efficiency=0.7), "efficiency_only_if_correct") == 0.0
    assert one(made(0.9, correctness=1.0), "efficiency_only_if_correct") == 0.0
    parents = replace(copied(), parent_correctness=1.0, parent_efficiency=0.4)
    assert one(parents, "efficiency_only_if_correct") == 0.4


@given(st.integers(0, 400), st.floats(0, 1))
def test_length_is_free_then_linear_then_bounded(tokens, soft):
    found = one(made(0.5, tokens=tokens, max_tokens=200), "length", length_soft=soft)
    expected = 0.0 if tokens <= 200 * soft else -min(1.0, (tokens - 200 * soft) / max(200 * (1 - soft), 1e-9))
    assert found == pytest.approx(expected)


def test_novelty_pays_improvements_alone_and_by_how_different_they_are():
    twin = made(0.9)
    other = replace(made(0.8), source="def f(a):\n    return [min(a)] + a[1:4]\n", program_hash="other")
    junk = replace(made(0.0), source="while True: pass\n", program_hash="junk")
    scored = reward_of(RewardConfig(parts={"novelty": 1.0}))([twin, twin, other, junk, copied(), empty()])
    first, second, third, *rest = [s.reward for s in scored]
    assert first == second and first is not None and third is not None
    assert 0 < first < third <= 1
    assert rest == [0.0, 0.0, 0.0]
    assert one(made(0.9), "novelty") == 0.0  # Alone in its group.


@given(st.lists(samples(), min_size=2, max_size=6), st.randoms(use_true_random=False))
def test_the_order_of_a_group_does_not_matter(group, rng):
    reward = reward_of(RewardConfig(parts={"novelty": 1.0, "lazy": 0.5}))
    order = list(range(len(group)))
    rng.shuffle(order)
    straight, shuffled = reward(group), reward([group[i] for i in order])
    assert [shuffled[j].reward for j in range(len(order))] == pytest.approx([straight[i].reward for i in order])


def test_names_comments_and_layout_are_not_novel():
    a, renamed = (
        sketch("def f(a):\n    b = a + 1  # more\n    return b\n"),
        sketch("def g(x):\n  y = x+1\n  return y\n"),
    )
    assert distance(sketch("def f(a):\n  b = a + 1\n  return b"), renamed) == 0
    assert distance(a, sketch("def f(a):\n    return max(a)\n")) > 0.3
    assert distance(sketch(""), sketch("# nothing\n")) == 0
    assert distance(sketch(""), a) == 1


@given(st.text(max_size=60), st.text(max_size=60))
def test_distance_is_a_symmetric_share(a, b):
    d = distance(sketch(a), sketch(b))
    assert 0 <= d <= 1 and d == distance(sketch(b), sketch(a)) and distance(sketch(a), sketch(a)) == 0


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("name", ["search_gain", "metaevolve", "absolute", "format"])
def test_a_measurement_that_is_no_number_is_masked_not_zero(name, value):
    [scored] = reward_of(RewardConfig(parts={name: 1.0}))([made(value)])
    assert scored.reward is None and "fitness is not finite" in scored.reason


def test_a_reward_beyond_reason_is_masked():
    [scored] = reward_of(RewardConfig(parts={"absolute": 1.0}))([made(1e300)])
    assert scored.reward is None and "beyond" in scored.reason


def test_a_reply_that_hands_the_parent_back_is_read_as_a_copy():
    """The parser's word for it and the reward's must not drift apart."""
    parent = Program.of(SOURCE)
    proposal = apply_rewrite(parent, f"```python\n# better now\n{SOURCE}```")
    assert proposal.program is None and proposal.rejection is not None
    sample = Sample(0.5, None, contract_ok=False, rejection=proposal.rejection.value, parent_hash=parent.id)
    assert one(sample, "metaevolve") == 0.0 and one(sample, "lazy") == -1.0 and one(sample, "format") == 1.0


@pytest.mark.parametrize("parts", [{"lasy": 1.0}, {"lazy": 0.0}, {}, {"x.py:": 1.0}, {"lazy": math.nan}])
def test_parts_that_mean_nothing_are_refused(parts):
    with pytest.raises(ConfigError, match="parts"):
        parse(RewardConfig, {"parts": parts}, where="recipe")


OWN = """
import os, sys, time, ctypes
import numpy
from fractions import Fraction
def good(sample): return sample.fitness * 2
def whole(sample): return 3
def fraction(sample): return Fraction(1, 4)
def truth(sample): return True
def array(sample): return numpy.float32(0.5)
def raises(sample): raise ValueError("no such key")
def none(sample): return None
def nan(sample): return float("nan")
def inf(sample): return float("-inf")
def text(sample): return "0.7"
def many(sample): return [1.0]
def imaginary(sample): return 1j
def huge(sample): return 10 ** 400
def large(sample): return 1e9
def exits(sample): sys.exit(0)
def dies(sample): os._exit(0)
def hangs(sample):
    while True: time.sleep(0.01)
def swallows(sample):
    try:
        while True: time.sleep(0.01)
    except Exception: return 1.0
def stubborn(sample):
    while True:
        try:
            while True: time.sleep(0.01)
        except BaseException: pass
"""

GOOD = {"good": 1.0, "whole": 3.0, "fraction": 0.25, "truth": 1.0, "array": 0.5}
BAD = {
    "raises": "raised ValueError: no such key",
    "none": "returned None",
    "nan": "not finite",
    "inf": "not finite",
    "text": "returned str '0.7', not a number",
    "many": "returned list",
    "imaginary": "returned complex",
    "huge": "not finite",
    "exits": "raised SystemExit",
    "dies": "its worker ended",
    "hangs": "timed out after 0.8 s",
    "swallows": "timed out",
    "stubborn": "its worker ended",
}


def test_functions_of_the_users_own_are_contained(tmp_path):
    """One that dies or hangs costs its samples alone; the others' values are as they should be, before and after it."""
    path = tmp_path / "own.py"
    path.write_text(OWN)
    names = {f"{path}:{name}": name for name in [*GOOD, *BAD]}
    with closing(OwnRewards(list(names), timeout_s=0.8)) as own:
        found = {names[full]: results for full, [*results] in own([made(0.5), made(0.5)]).items()}
    for name, value in GOOD.items():
        assert found[name] == [(value, "")] * 2
    for name, said in BAD.items():
        assert all(value is None and said in reason for value, reason in found[name]), (name, found[name])


def test_a_large_value_of_the_users_own_is_masked(tmp_path):
    path = tmp_path / "own.py"
    path.write_text(OWN)
    with reward_of(RewardConfig(parts={f"{path}:large": 1.0, "format": 1.0})) as reward:
        [scored] = reward([made(0.5)])
    assert scored.reward is None and "beyond 1e+06" in scored.reason


def test_a_failing_part_masks_its_sample_and_no_other(tmp_path):
    path = tmp_path / "own.py"
    path.write_text("import os\ndef f(s):\n    if s.fitness < 0.2: os._exit(1)\n    return 1 / (s.fitness - 0.5)\n")
    with reward_of(RewardConfig(parts={f"{path}:f": 1.0, "absolute": 1.0}, timeout_s=5.0)) as reward:
        scored = reward([made(1.0), made(0.5), made(0.1), made(0.75)])
    assert [s.reward for s in scored] == [3.0, None, None, 4.75]
    assert "ZeroDivisionError" in scored[1].reason and "worker ended" in scored[2].reason


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def g(s): return 0", "must define f"),
        ("def f(s)", "SyntaxError"),
        ("raise OSError('x')", "OSError"),
        (None, "cannot read"),
    ],
)
def test_a_file_that_cannot_be_used_is_told_before_training(tmp_path, text, said):
    path = tmp_path / "own.py"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ConfigError, match=said):
        reward_of(RewardConfig(parts={f"{path}:f": 1.0}))


def test_own_files_are_on_record_by_hash(tmp_path):
    path = tmp_path / "own.py"
    path.write_text("def f(s): return 0\n")
    digest = own_digests([f"{path}:f", "lazy"])
    assert list(digest) == [str(path)] and len(digest[str(path)]) == 64
    assert BOUND == 1e6
