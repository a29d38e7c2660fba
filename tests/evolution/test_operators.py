"""Operators: every child compiles, differs, keeps what is outside the block, and follows from its stream alone."""

import ast
import math
import random
import re
import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coevo.errors import UsageError
from coevo.evolution.mutation import KINDS
from coevo.evolution.operators import constants, mutate, splice, tune, with_constants
from coevo.evolution.types import Edit, Rejection
from coevo.programs import Program
from coevo.streams import stream
from tests.evolution.samples import PROGRAMS, outside

names = st.sampled_from(sorted(PROGRAMS))
seeds = st.integers(0, 2**64)
values = st.floats(-1e18, 1e18) | st.floats(-3, 3) | st.sampled_from([0.0, -0.0, 1.0, -1.0, math.inf, math.nan, 0.5])


def check(proposal, parent, edit):
    """What holds for every operator's proposal."""
    assert proposal.edit is edit
    if proposal.program is None:
        assert proposal.rejection is not None and proposal.detail
        return
    assert proposal.rejection is None
    child = proposal.program
    assert child.id != parent.id
    assert [name for name, _ in child.files] == [name for name, _ in parent.files]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        for name, text in child.files:
            if name.endswith(".py"):
                compile(text, name, "exec")
    assert outside(child) == outside(parent)


@given(names, seeds)
@settings(max_examples=300, deadline=None)
def test_a_mutant_compiles_differs_and_respects_the_block(name, seed):
    parent = PROGRAMS[name]
    proposal = mutate(parent, stream(seed, "mutate"))
    check(proposal, parent, Edit.MUTATE)
    assert proposal.program is not None
    assert mutate(parent, stream(seed, "mutate")) == proposal


@given(names, seeds)
@settings(max_examples=25, deadline=None)
def test_mutants_of_mutants_stay_programs(name, seed):
    parent = PROGRAMS[name]
    for step in range(12):
        proposal = mutate(parent, stream(seed, step))
        check(proposal, parent, Edit.MUTATE)
        parent = proposal.program or parent


def test_every_kind_of_mutation_happens():
    seen = {
        proposal.extra["kind"]
        for name in ("packing", "corners", "tabs")
        for seed in range(150)
        if (proposal := mutate(PROGRAMS[name], random.Random(seed))).program is not None
    }
    assert seen == set(KINDS)


def test_parentheses_do_not_pile_up():
    parent = Program.of("def f(a, b):\n    c = (a + b) * (a - b)\n    return c\n")
    for seed in range(300):
        child = mutate(parent, random.Random(seed)).program
        assert not re.search(r"\(\([^()]*\)\)|(=|return) \([^()]*\)$", child.source, re.MULTILINE)
        assert ast.dump(ast.parse(child.source)) != ast.dump(ast.parse(parent.source))


def test_mutants_are_varied():
    children = {mutate(PROGRAMS["packing"], random.Random(seed)).program.id for seed in range(200)}
    assert len(children) > 120


def test_a_mutation_touches_one_place_and_keeps_comments():
    parent = PROGRAMS["packing"]
    for seed in range(100):
        child = mutate(parent, random.Random(seed))
        before, after = parent.source.splitlines(), child.program.source.splitlines()
        changed = [line for line in after if line not in before]
        assert len(changed) <= 8, child.extra
        if child.extra["kind"] not in ("delete", "swap", "duplicate"):
            assert "# radians" in child.program.source


@pytest.mark.parametrize(
    "program",
    [
        Program.of(""),
        Program.of("def f(:\n"),
        Program.of("import math\n"),
        Program.of("x = 3\n# EVOLVE-BLOCK-START\n# EVOLVE-BLOCK-END\n"),
        Program.of("# EVOLVE-BLOCK-START\nx = 3\n"),
        Program.of("x = '\ud800'\n"),
        Program.of("x = \0 3\n"),
        Program.of("x = " + "-" * 3000 + "5\n"),
        Program.of("x = " + "+ 2" * 4000 + "\n"),
        Program.of("x = " + "9" * 4300 + "\n"),
        Program.of("\ufeffx = 3\ny = x + 4\n"),
        Program.of("x = 3\r\ry = 4\r"),
    ],
    ids=range(12),
)
def test_operators_are_total(program):
    other = PROGRAMS["packing"]
    for seed in range(10):
        for proposal in (mutate(program, random.Random(seed)), splice(program, other, random.Random(seed))):
            assert (proposal.program is None) == (proposal.rejection is not None)
        splice(other, program, random.Random(seed))
    found = constants(program)
    assert len(found.vector) == len(found.kinds) == len(found.scales)
    assert tune(program, [0.5] * len(found.vector)).edit is Edit.TUNE


@given(names, names, seeds)
@settings(max_examples=200, deadline=None)
def test_a_splice_compiles_differs_and_respects_the_block(a, b, seed):
    proposal = splice(PROGRAMS[a], PROGRAMS[b], stream(seed, "splice"))
    check(proposal, PROGRAMS[a], Edit.SPLICE)
    assert splice(PROGRAMS[a], PROGRAMS[b], stream(seed, "splice")) == proposal
    if proposal.program is not None:
        assert proposal.program.id != PROGRAMS[b].id


def relative(program, seed, steps=4):
    for step in range(steps):
        program = mutate(program, stream(seed, step)).program or program
    return program


def squeezed(text):
    return "".join(text.split())


def stripped_lines(text):
    return {line.strip() for line in text.splitlines()}


def common(a, b):
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


def changed_texts(before, after):
    """What stands in `after` between a beginning and an end that it shares with `before`, squeezed: where the change begins
    with what follows it, there are several ways to cut."""
    low = common(before, after)
    high = len(after) - common(before[low:][::-1], after[low:][::-1])
    found = []
    for k in range(low + 1):
        if after[low - k : low] != after[high - k : high]:
            break
        found.append(squeezed(after[low - k : high - k]).removeprefix("(").removesuffix(")"))
    return found


def test_a_splice_of_relatives_brings_in_parts_of_the_second_parent():
    kinds = set()
    for seed in range(60):
        other = relative(PROGRAMS["corners"], seed)
        child = splice(PROGRAMS["corners"], other, random.Random(seed))
        if child.program is not None:
            kinds.add(child.extra["kind"])
            before, after = PROGRAMS["corners"].source, child.program.source
            if child.extra["kind"] in ("function", "statement"):
                assert stripped_lines(after) - stripped_lines(before) <= stripped_lines(other.source)
            elif child.extra["kind"] == "expression":
                assert any(text in squeezed(other.source) for text in changed_texts(before, after))
    assert {"function", "statement", "expression"} <= kinds


def test_programs_of_one_skeleton_exchange_constants():
    a = Program.of("def f(x):\n    return x * 2.0 + 3.0 * x ** 5.0 - 7.0\n")
    b = Program.of("def f(x):\n    return x * 20.0 + 30.0 * x ** 50.0 - 70.0\n")
    vectors = set()
    for seed in range(60):
        child = splice(a, b, random.Random(seed))
        if child.program is not None and child.extra["kind"] == "constants":
            assert constants(child.program).skeleton == constants(a).skeleton
            vectors.add(constants(child.program).vector)
    mixed = [v for v in vectors if set(v) <= {2.0, 3.0, 5.0, 7.0, 20.0, 30.0, 50.0, 70.0}]
    assert mixed and len(vectors) > len(mixed)


def test_a_spliced_part_is_indented_for_its_new_home_and_known_there():
    home = "class A:\n    def f(self, x):\n        return x\n\n\ndef helper(x):\n    return x\n"
    part = 'def f(self, x):\n    """One\n  two."""\n    y = {}(x)\n    return x + 2\n'
    wanted = home.replace(
        "        return x\n", '        """One\n  two."""\n        y = helper(x)\n        return x + 2\n', 1
    )
    for name in ("helper", "unknown"):
        other = Program.of(part.format(name))
        children = [splice(Program.of(home), other, random.Random(seed)).program for seed in range(80)]
        found = {child.source for child in children if child is not None}
        assert (wanted in found) == (name == "helper")
        assert not any("unknown" in source for source in found)


def test_which_literals_are_constants():
    found = constants(PROGRAMS["packing"])
    assert found.vector == (8.0, 0.5, 2.0, 0.125, 3.0, 2.0, 1.5, 0.99, 0.001, 0.5, 0.5, 3.0)
    assert [i for i, kind in enumerate(found.kinds) if kind == "int"] == [0, 4, 5, 11]
    corners = constants(PROGRAMS["corners"]).vector
    assert corners == (2.0, 2.0, 16.0, -5.0, 1000.0, 2.0, -2.0, 2.5, 2.0, 3.0, -2.5, 1e100)
    assert constants(Program.of("x = a[5] + b[2:-3] + c[i + 7] + d[f(9)] + 0 - 1 + True + 0x1F + 2j\n")).vector == (
        9.0,
    )


@given(names, st.data())
@settings(max_examples=150, deadline=None)
def test_constants_round_trip(name, data):
    parent = PROGRAMS[name]
    own = constants(parent)
    vector = data.draw(st.lists(values, min_size=len(own.vector), max_size=len(own.vector)))
    proposal = with_constants(parent, vector)
    check(proposal, parent, Edit.TUNE)
    if proposal.program is None:
        assert proposal.rejection in (Rejection.UNCHANGED, Rejection.NOTHING_TO_CHANGE)
        return
    got = constants(proposal.program)
    assert (got.skeleton, got.kinds) == (own.skeleton, own.kinds)
    for wanted, kind, before, after in zip(vector, own.kinds, own.vector, got.vector, strict=True):
        if not math.isfinite(wanted):
            assert after == before
        elif kind == "float":
            assert after == wanted and math.copysign(1, after) == math.copysign(1, wanted)
        elif 2 <= abs(wanted) <= 1e15:
            assert after == round(wanted)
        else:
            assert abs(after) >= 2 and after * wanted >= 0


def test_minus_signs_belong_to_their_literal():
    parent = Program.of("x = -(-2)\ny = - - -3.0\nz = -(w)\n")
    assert constants(parent).vector == (2.0, -3.0)
    child = with_constants(parent, [-7, 4.0]).program
    assert child.source == "x = -7\ny = 4.0\nz = -(w)\n"
    assert constants(child).skeleton == constants(parent).skeleton


@given(names)
def test_its_own_constants_change_nothing(name):
    proposal = with_constants(PROGRAMS[name], constants(PROGRAMS[name]).vector)
    assert proposal.rejection in (Rejection.UNCHANGED, Rejection.NOTHING_TO_CHANGE)


def test_moved_constants_mean_what_they_say():
    source = "def f(x):\n    return x - 2.0, x ** 2, -4.0 * x, x --3.0, [5.0][0], 6.0if x else 7.0\n"
    child = with_constants(Program.of(source), [-1.5, -3, 4.5, 2.5, -5.5, 8.0, -9.0])
    space = {}
    exec(child.program.source, space)
    assert space["f"](2.0) == (3.5, 0.125, 9.0, -0.5, -5.5, 8.0)
    glued = with_constants(Program.of("def f():\n    return-2.5\n"), [3.5])
    exec(glued.program.source, space)
    assert space["f"]() == 3.5


def test_a_skeleton_ignores_constants_and_layout_and_nothing_else():
    skeleton = constants(Program.of("x = f(2.0, 'a') + 5\n")).skeleton
    assert constants(Program.of("x = ( f(3.5,'a')  # why\n   + 60)\n")).skeleton == skeleton
    for other in ("x = f(2, 'a') + 5\n", "y = f(2.0, 'a') + 5\n", "x = f(2.0, 'b') + 5\n", "x = f(2.0, 'a') + 1\n"):
        assert constants(Program.of(other)).skeleton != skeleton


def test_tuning_moves_by_scales():
    parent = Program.of("a = 0.02\nb = 500\nc = 0.0\nd = 2\n")
    assert constants(parent).scales == (0.02, 500.0, 1.0, 4.0)
    assert tune(parent, [0.5, -0.1, 0.25, 0.5]).program.source == "a = 0.03\nb = 450\nc = 0.25\nd = 4\n"
    with pytest.raises(UsageError, match="4 constants"):
        tune(parent, [1.0])
    with pytest.raises(UsageError, match="4 constants, the vector 1"):
        with_constants(parent, [1.0])


def test_a_program_without_constants_has_nothing_to_tune():
    assert with_constants(Program.of("x = y\n"), []).rejection is Rejection.NOTHING_TO_CHANGE


@given(names, seeds)
@settings(max_examples=40, deadline=None)
def test_operators_never_reach_the_frozen_parts_of_the_tree(name, seed):
    """Imports, decorators and annotations survive every mutation."""
    parent = PROGRAMS[name]
    child = mutate(parent, stream(seed)).program
    before, after = ast.parse(parent.source), ast.parse(child.source)
    for kind in (ast.Import, ast.ImportFrom):
        assert [ast.dump(n) for n in ast.walk(before) if isinstance(n, kind)] == [
            ast.dump(n) for n in ast.walk(after) if isinstance(n, kind)
        ]
