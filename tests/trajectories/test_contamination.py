"""What would give away held-out tasks."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from coevo.programs import Program
from coevo.trajectories.contamination import Held, Overlaps
from coevo.trajectories.settings import ContaminationConfig

LONG = " ".join(f"word{i}" for i in range(60))
CODE = "def solve(a, b):\n" + "".join(f"    x{i} = a * {i} + b\n" for i in range(12)) + "    return x1\n"


def held(**settings) -> Held:
    found = Held(ContaminationConfig.model_validate(settings))
    found.add("secret", LONG, [Program.of(CODE)])
    return found


def test_overlap_is_the_share_of_the_shorter_texts_runs() -> None:
    index = Overlaps(3, 0.5, whole=True)
    index.add("ten", list("abcdefghij"))
    assert index.find(list("abcdefghij")) == ("ten", 1.0)
    assert index.find([*"xyz" * 20, *"abcdefghij", *"uvw" * 20]) == ("ten", 1.0)
    assert index.find([*"abcdef", *"mnop"]) == ("ten", 0.5)
    assert index.find([*"abcde", *"mnopq"]) is None
    index.add("two", ["p", "q"])
    assert index.find(["p", "q"]) == ("two", 1.0)
    assert index.find(["p", "q", "r"]) is None


@given(st.lists(st.sampled_from("ab"), max_size=30), st.lists(st.sampled_from("ab"), max_size=30), st.integers(1, 6))
def test_overlap_is_exact_containment(a: list[str], b: list[str], n: int) -> None:
    def grams(words: list[str]) -> set[tuple[str, ...]]:
        return {tuple(words[i : i + n]) for i in range(len(words) - n + 1)}

    index = Overlaps(n, 1e-9, whole=False)
    index.add("b", b)
    found, common = index.find(a), grams(a) & grams(b)
    assert (found is not None) == bool(common)
    if found:
        assert found[1] == len(common) / min(len(grams(a)), len(grams(b)))


def test_statements() -> None:
    words = LONG.split()
    copied = f"A new story. {LONG.upper()}! And more."
    assert held().in_statement(copied).against == "secret"
    half = " ".join(words[:36] + ["other"] * 24)
    assert held().in_statement(half) is None
    assert held(overlap=0.4).in_statement(half) is not None
    assert held(ngram=40).in_statement(half) is None
    spaced = " ".join(word + (" filler" if i % 8 == 7 else "") for i, word in enumerate(words))
    assert held().in_statement(spaced) is None
    assert held(ngram=5, overlap=0.5).in_statement(spaced) is not None
    assert held(statements=False).in_statement(copied) is None


def test_programs() -> None:
    same = Program.of("# other comment\n" + CODE.replace(" = ", "   =  "))
    assert held().in_program(same).why.startswith("the same normal form")
    near = Program.of(CODE.replace("return x1", "return x2"))
    assert "runs of 50 tokens" in held().in_program(near).why
    assert held(program_ngram=10_000).in_program(near) is None
    assert held(programs=False).in_program(same) is None
    assert held().in_program(Program.of("def solve(a, b):\n    return a\n")) is None


def test_nothing_held_is_falsy() -> None:
    assert not Held(ContaminationConfig())
    assert held()
