"""Descriptors: equal for equal programs, ordered by how much was changed, the same in every process."""

import subprocess
import sys

from hypothesis import given
from hypothesis import strategies as st

from coevo.evolution.features import SKETCH, distance, features
from coevo.evolution.mutation import mutate
from coevo.programs import Program
from coevo.streams import stream
from tests.evolution.samples import PACKING, PROGRAMS

sketches = st.lists(st.integers(0, 200), max_size=SKETCH, unique=True).map(lambda xs: tuple(sorted(xs)))


def test_counts():
    found = features(
        Program.of(
            "def f(n):\n    # why\n    t = 0\n    for i in range(n):\n        if i > 2:\n            t += sum([j for j in g(i)])\n    return t\n"
        )
    )
    assert (found.loops, found.branches, found.calls, found.functions, found.constants) == (2, 1, 3, 1, 2)
    assert found.descriptors == (found.size, 4.0)


def test_names_and_constants_do_not_change_the_structure():
    a = features(Program.of("def f(x):\n    return x + 2\n"))
    b = features(Program.of("def g(value):\n    return value + 3.5  # more\n"))
    c = features(Program.of("def f(x):\n    return x - 2\n"))
    assert a.structure == b.structure != c.structure
    assert a.sketch != b.sketch


def test_layout_and_comments_change_nothing():
    loose = PACKING.replace(" = ", "  =  ").replace("# radians", "# in radians, of course")
    assert features(Program.of(loose)) == features(Program.of(PACKING))


def test_distance_grows_with_the_number_of_mutations():
    means = []
    for steps in (1, 4, 16):
        total = 0.0
        for seed in range(20):
            program = PROGRAMS["corners"]
            for step in range(steps):
                program = mutate(program, stream(seed, step)).program or program
            total += distance(features(program).sketch, features(PROGRAMS["corners"]).sketch)
        means.append(total / 20)
    assert 0 < means[0] < means[1] < means[2] < 1
    assert distance(features(PROGRAMS["unicode"]).sketch, features(PROGRAMS["tabs"]).sketch) > 0.8


@given(sketches, sketches)
def test_distance_is_a_bounded_symmetric_difference(a, b):
    assert distance(a, b) == distance(b, a)
    assert 0.0 <= distance(a, b) <= 1.0
    assert distance(a, a) == 0.0
    if len(a) < SKETCH and len(b) < SKETCH and (a or b):
        assert distance(a, b) == 1 - len({*a} & {*b}) / len({*a} | {*b})


@given(st.text(max_size=200))
def test_any_text_has_features(text):
    found = features(Program.of(text))
    assert len(found.sketch) <= SKETCH and found == features(Program.of(text))


def test_features_are_the_same_in_another_process():
    code = (
        "import sys; from coevo.evolution.features import features; from coevo.programs import Program;"
        "print(features(Program.of(sys.stdin.read())))"
    )
    run = subprocess.run([sys.executable, "-c", code], input=PACKING, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == str(features(Program.of(PACKING)))
