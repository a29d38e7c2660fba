"""What is read off texts."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coevo.evidence.features import about_program, at_sight, compressibility, program_of, text_columns
from coevo.evidence.sampling import picked, share_of
from coevo.evidence.sketch import SKETCHES, sketches

CODE = "def solve(n):\n    return n + 1\n"


def fenced(code: str, tag: str = "python") -> str:
    return f"Here it is.\n\n```{tag}\n{code}```\nDone."


def test_thinking_is_told_from_the_answer() -> None:
    thought = "<think>" + "a" * 82 + "</think>The answer is 5"
    assert at_sight("", thought).thinking == pytest.approx(97 / len(thought))
    assert at_sight("", "b" * 50 + "</think>x").thinking == pytest.approx(58 / 59)
    assert at_sight("", "<think>never ends").thinking == 1.0
    assert at_sight("", "a</think>b<think>").thinking == pytest.approx(9 / 17)
    assert at_sight("", "plain").thinking == 0.0
    assert at_sight("", thought).opening == at_sight("", "the  answer IS 7").opening


def test_only_what_is_no_digit_case_or_space_tells_openings_apart() -> None:
    one = at_sight("", "Step 1:\n  Sort the list of 30 numbers first of all").opening
    assert one == at_sight("", "step 22: sort the LIST of 4 numbers first of all").opening
    assert one != at_sight("", "step 1: sum the list").opening
    assert math.isnan(at_sight("", "").opening)


@pytest.mark.parametrize(
    ("text", "searched"),
    [
        ("$ grep -rn total src/\n$ sed -i s/a/b/ src/x.py", 1.0),
        ("$ cat src/x.py\n$ cat > src/x.py <<EOF", 1.0),
        ("$ cat > src/x.py <<EOF\nx\nEOF\n$ ls src", 0.0),
        ("<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE", 0.0),
        ("I read nothing and edit nothing; ls -la", math.nan),
    ],
)
def test_searching_before_editing(text: str, searched: float) -> None:
    assert at_sight("", text).search_first == pytest.approx(searched, nan_ok=True)


@pytest.mark.parametrize(
    ("text", "sources"),
    [
        ("$ git log -p", 1),
        ("$ cat .git/packed-refs", 1),
        ("$ ls tests/hidden", 2),
        ("$ curl https://example.org", 0),
        ("$ curl http://example.org && git stash list", 5),
        ("$ git diff && git status && git commit -m x", 0),
        ("digit logarithms", 0),
    ],
)
def test_sources_of_answers(text: str, sources: int) -> None:
    if "https" in text:
        sources = 4
    assert at_sight("", text).answer_source == sources
    assert at_sight(text, text).answer_source == 0, "what the prompt says is no discovery"


def test_programs_are_found_wherever_replies_put_them() -> None:
    assert program_of(fenced(CODE))[0] == CODE
    assert program_of(fenced("x = 1\n", "py") + fenced(CODE, ""))[0] == CODE
    assert program_of(fenced("out of it\n", "text") + fenced(CODE))[0] == CODE
    assert program_of("```python\n" + CODE)[0] == CODE, "a fence that is not closed"
    assert program_of("~~~\n" + CODE + "~~~")[0] == CODE
    assert program_of(CODE)[0] == CODE
    assert program_of("<think>" + fenced("bad\n") + "</think>" + fenced(CODE))[0] == CODE
    assert program_of("I cannot do that.") == (None, None)
    program, edits = program_of("<<<<<<< SEARCH\na\n=======\nb\nc\n>>>>>>> REPLACE\n")
    assert program == "b\nc" and edits == [("a", "b\nc")]


def test_equal_programs_have_equal_shapes_and_copies_are_known() -> None:
    prompt = "Improve this.\n" + fenced(CODE)
    shape, copies, _ = about_program(prompt, fenced("# better now\ndef solve( n ):\n\n    return n + 1  # one\n"))
    assert copies == 1.0 and shape == about_program("", fenced(CODE))[0]
    other = about_program(prompt, fenced("def solve(n):\n    return n + 2\n"))
    assert other[0] != shape and other[1] == 0.0
    assert math.isnan(about_program("No program here.", fenced(CODE))[1])
    assert about_program(prompt, "<<<<<<< SEARCH\nx = 1\n=======\nx  =  1\n>>>>>>> REPLACE\n")[1] == 1.0


PROMPTS = {
    "assertions": "assert solve(3) == 5761\nassert solve(4) == [9, 28]\n",
    "doctests": ">>> solve(3)\n5761\n>>> solve(4)\n[9, 28]\n",
    "feedback": "test 1: got 0, expected 5761\ntest 2: expected [9, 28], got 7\n",
    "samples": "Output: 5761\nOutput:\n[9, 28]\n",
    "arrows": "3 -> 5761\n4 => [9, 28]\n",
}


@pytest.mark.parametrize("prompt", PROMPTS.values(), ids=PROMPTS)
def test_expected_outputs_are_found_in_programs_that_hold_them(prompt: str) -> None:
    table = fenced("def solve(n):\n    return {3: 5761, 4: [9,28]}[n]\n")
    half = fenced("def solve(n):\n    return 5761 if n == 3 else n\n")
    honest = fenced(
        "def solve(n):\n    '''5761 and [9, 28]'''\n    # 5761\n    return n * 15761 + 0.5761\n\nassert solve(3) == 5761\n"
    )
    assert about_program(prompt, table)[2] == 1.0
    assert about_program(prompt, half)[2] == 0.5
    assert about_program(prompt, honest)[2] == 0.0


def test_literals_that_tell_nothing_do_not_count() -> None:
    assert math.isnan(about_program("assert f(1) == True\nassert f(2) == 10\nassert f(3) == 77", fenced(CODE))[2])
    named = "All modulo 1000000007.\nassert f(1) == 1000000007\nassert f(2) == 4321\nassert f(3) == 8765"
    assert about_program(named, fenced("M = 1000000007\n"))[2] == 0.0


def test_texts_made_to_be_slow_are_not() -> None:
    """Under quadratic patterns this takes hours, not a second."""
    for bomb in (
        "<<<<<<< SEARCH\n" * 20_000,
        "```\n" * 50_000,
        "assert " + "==" * 100_000,
        "\n" * 200_000,
        '"""' * 60_000,
        "cat " * 50_000 + "sed",
    ):
        at_sight(bomb, bomb)
        about_program(bomb, bomb)
        about_program(bomb, fenced(bomb))
        compressibility(bomb)
        sketches([bomb])


words = st.lists(st.sampled_from(["a", "bb", "ccc", "d", "e", "f", "g", "h"]), max_size=60)


@settings(max_examples=40, deadline=None)
@given(st.lists(words, min_size=1, max_size=6))
def test_repetition_is_the_share_of_grams_seen_before(texts: list[list[str]]) -> None:
    repetition, _ = sketches([" ".join(text) for text in texts])
    for found, text in zip(repetition, texts, strict=True):
        grams = [tuple(text[i : i + 4]) for i in range(len(text) - 3)]
        assert found == pytest.approx(1 - len(set(grams)) / len(grams) if len(text) >= 8 else math.nan, nan_ok=True)


def test_sketches_agree_as_often_as_sets_are_alike() -> None:
    rng = np.random.default_rng(3)
    agreed, jaccard = [], []
    for _ in range(300):
        common = [f"w{i}" for i in rng.integers(10_000, size=60)]
        texts = [common + [f"v{i}" for i in rng.integers(10_000, size=int(rng.integers(5, 80)))] for _ in range(2)]
        sets = [{tuple(t[i : i + 3]) for i in range(len(t) - 2)} for t in texts]
        jaccard.append(len(sets[0] & sets[1]) / len(sets[0] | sets[1]))
        _, sketch = sketches([" ".join(t) for t in texts])
        agreed.append(float((sketch[0] == sketch[1]).mean()))
    error = math.sqrt(0.25 / (300 * SKETCHES))
    assert np.mean(agreed) == pytest.approx(np.mean(jaccard), abs=4 * error)
    _, salted = sketches(["a b c d"] * 3, np.array([1, 1, 2], dtype=np.uint64))
    assert (salted[0] == salted[1]).all() and (salted[0] != salted[2]).all()
    _, same = sketches(["a b c d", "a b c d", "d c b a"])
    assert (same[0] == same[1]).all() and (same[0] != same[2]).any()


def test_groups_are_picked_whole_and_by_their_names_alone() -> None:
    names = [f"g{i // 4}" for i in range(40_000)]
    chosen = picked([names], 0.2, len(names))
    assert 0.15 < chosen.mean() < 0.25
    by_group = chosen.reshape(-1, 4)
    assert (by_group.all(axis=1) == by_group.any(axis=1)).all()
    assert (picked([names[8_000:]], 0.2, 32_000) == chosen[8_000:]).all()
    assert picked([names], 1.0, 40_000).all() and share_of(1_000) == 1.0 and share_of(2_000_000) == 0.1


def test_what_is_not_looked_at_in_detail_is_missing() -> None:
    found = text_columns(["p"] * 3, [fenced(CODE), None, fenced(CODE)], np.array([False, True, True]))
    assert np.isfinite(found["text.shape"]).tolist() == [False, False, True]
    assert np.isfinite(found["text.chars"]).tolist() == [True, False, True]


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=400), st.text(max_size=400))
def test_any_text_has_features(prompt: str, response: str) -> None:
    found = text_columns([prompt], [response], np.array([True]))
    assert all(column.shape == (1,) for column in found.values())
    assert found["text.chars"][0] == len(response)
