"""Answers are found where they are, and short programs that merely look alike are not taken for them."""

from hypothesis import given
from hypothesis import strategies as st

from coevo.gate.fingerprints import Finder, fingerprints


def puzzle(constants: list[int]) -> str:
    lines = [f"    if k == {i}:\n        return n * {c} + {c + 1}" for i, c in enumerate(constants)]
    return "def solve(k, n):\n" + "\n".join(lines) + "\n"


ANSWER = puzzle([3, 14, 15, 92, 65, 35, 89, 79])


def test_an_answer_or_nearly_all_of_it_is_found() -> None:
    finder = Finder({"task": fingerprints([ANSWER], programs=["abc"])})
    assert finder.in_text(f"Here you are:\n{ANSWER}\nGood luck.") == {"task"}
    assert finder.in_text(ANSWER[: int(len(ANSWER) * 0.9)]) == {"task"}
    assert finder.of_program("abc") == {"task"}


def test_lines_in_common_are_no_leak() -> None:
    finder = Finder({"task": fingerprints([ANSWER])})
    assert finder.in_text(puzzle([3, 14, 1, 2, 7, 5, 8, 6])) == set()
    assert finder.in_text(ANSWER[: len(ANSWER) // 2]) == set()


@given(st.lists(st.integers(100, 999), min_size=4, max_size=8, unique=True), st.text(max_size=80))
def test_any_answer_is_found_in_any_text(constants: list[int], around: str) -> None:
    answer = puzzle(constants)
    assert Finder({"t": fingerprints([answer])}).in_text(f"{around} \n{answer}\n {around}") == {"t"}


def test_an_answer_of_common_pieces_is_found_by_all_of_it_and_not_by_the_line_that_is_its_own() -> None:
    common = "if k == 0 : return n + 1 if k == 1 : return n * 2 if k == 2 : return n - 3 if k == 3 : return n % 7"
    own = "if k == 4 : return n // 5"
    answers = {f"task{i}": fingerprints([f"{common} return {i}"]) for i in range(4)} | {
        "mine": fingerprints([f"{common} {own}"])
    }
    finder = Finder(answers)
    assert "mine" in finder.in_text(f"a text with {common} {own} in it")
    tail = " ".join(common.split()[-12:])
    assert "mine" not in finder.in_text(f"{tail} {own}"), "what it does not share with many, and little else"
    assert not finder.in_text(common)
