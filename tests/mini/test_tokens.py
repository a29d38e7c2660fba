"""The tokenizer: any text survives it, and prompts are short."""

import re
from functools import cache
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("tokenizers")
pytest.importorskip("transformers")

from coevo.evolution.edits import apply_diff, apply_rewrite
from coevo.evolution.prompt import build_messages
from coevo.evolution.types import Context, Edit, Rejection
from coevo.mini.corpus import CorpusConfig, answer, attempt_of, draw_example
from coevo.mini.families import SEEN, UNSEEN, draw_puzzle, family_named
from coevo.mini.tokens import END, encode, make_tokenizer, parts_of, pieces, view_of
from coevo.models.chat import end_tokens, render
from coevo.programs import Program
from coevo.streams import stream

FAMILIES = [*SEEN, *UNSEEN]
FAILING = re.compile(r"solve\((\d+), (\d+)\): got -?\d+, expected (-?\d+)")


@cache
def made():
    return make_tokenizer()


@pytest.fixture
def tokenizer():
    return made()


@given(
    text=st.text(st.characters(exclude_categories=["Cs"]), max_size=60),
    between=st.lists(st.sampled_from(pieces()), max_size=4),
)
@settings(max_examples=200, deadline=None)
def test_any_text_is_what_its_tokens_decode_to(text, between):
    whole = text.join(["", *between, ""])
    ids = encode(made(), [whole])[0]
    assert made().decode(ids, skip_special_tokens=False) == whole


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("style", [Edit.REWRITE, Edit.DIFF, Edit.WRITE])
def test_prompts_are_short_and_every_constant_piece_is_one_token(tokenizer, name, style):
    for seed in range(10):
        puzzle = draw_puzzle(family_named(name), "test", stream(seed, "tokens"))
        context = Context(attempt_of(puzzle, puzzle.start))
        text = render(tokenizer, build_messages(view_of(puzzle.statement), context, style=style))
        ids = encode(tokenizer, [text])[0]
        assert tokenizer.decode(ids, skip_special_tokens=False) == text
        assert len(ids) < 60
        letters = [tokenizer.decode([i]) for i in ids if len(tokenizer.decode([i])) == 1]
        assert all(letter in "0123456789-.()" for letter in letters), letters


def test_digits_are_single_and_a_reply_ends_with_the_end_of_turn(tokenizer):
    ids = encode(tokenizer, ["4096 -17" + END])[0]
    assert [tokenizer.decode([i]) for i in ids[:-1]] == list("4096 -17")
    model = SimpleNamespace(generation_config=None)
    assert ids[-1] in end_tokens(model, tokenizer)


def test_the_tokenizer_is_the_same_at_every_call_and_from_its_folder(tokenizer, tmp_path):
    from transformers import AutoTokenizer

    assert make_tokenizer().backend_tokenizer.to_str() == tokenizer.backend_tokenizer.to_str()
    tokenizer.save_pretrained(tmp_path)
    again = AutoTokenizer.from_pretrained(tmp_path)
    example = draw_example(CorpusConfig(), 0, 5)
    text = render(tokenizer, example.messages)
    assert render(again, example.messages) == text
    texts = [text, *example.replies]
    assert encode(again, texts) == encode(tokenizer, texts)
    assert again.pad_token_id != again.eos_token_id


@pytest.mark.parametrize("diff", [0.0, 1.0])
def test_replies_of_the_corpus_are_edits_that_the_search_accepts(diff):
    config = CorpusConfig(write=0, diff=diff, replies=6)
    copies = 0
    for i in range(40):
        example = draw_example(config, 1, i)
        current = example.messages[1].content.rpartition("# Current program")[2]
        parent = Program.of(current.partition("```python\n")[2].partition("```")[0])
        for reply in example.replies:
            child = (apply_diff if diff else apply_rewrite)(parent, reply)
            copies += child.rejection is Rejection.UNCHANGED
            assert child.program is not None or child.rejection is Rejection.UNCHANGED, (child, example)
    assert 10 < copies < 80


def test_an_exercise_repairs_what_the_tests_shown_name_and_nothing_else():
    config = CorpusConfig(write=0, history=0)
    for i in range(40):
        example = draw_example(config, 2, i, exercise=True)
        current = example.messages[1].content.rpartition("# Current program")[2]
        source = current.partition("```python\n")[2].partition("```")[0]
        (reply,) = example.replies
        child = apply_rewrite(Program.of(source), reply).program
        shown = [tuple(map(int, numbers)) for numbers in FAILING.findall(current)]
        if not shown:
            assert child is None, "a right program is handed back"
            continue
        assert child is not None
        before, after = ({}, {})
        exec(source, before)  # Of our own making.
        exec(child.files[0][1], after)
        assert [after["solve"](k, n) for k, n, _ in shown] == [expected for *_, expected in shown]
        untouched = set(range(3)) - {k for k, *_ in shown}
        assert all(after["solve"](k, n) == before["solve"](k, n) for k in untouched for n in range(1, 10))
    assert draw_example(config, 2, 0, exercise=True) == draw_example(config, 2, 0, exercise=True)
    assert draw_example(config, 2, 0, exercise=True) != draw_example(config, 2, 0)


def test_an_answer_makes_the_child_it_was_given():
    puzzle = draw_puzzle(family_named("chain5"), "train", stream(0, "answer"))
    parent = Program.of(puzzle.source(puzzle.start))
    wanted = Program.of(puzzle.source(puzzle.cases)).id
    rewrite = apply_rewrite(parent, answer(puzzle, puzzle.start, puzzle.cases, Edit.REWRITE)).program
    diff = apply_diff(parent, answer(puzzle, puzzle.start, puzzle.cases, Edit.DIFF)).program
    assert rewrite is not None and diff is not None
    assert rewrite.id == diff.id == wanted


def test_pieces_name_the_parts_they_share():
    assert parts_of("\n    if k == 3:\n        return n * n + 1")[1:] == ("expression n * n + 1", "case 3")
    assert parts_of("\n        5: n * 2,")[1:] == ("expression n * 2", "case 5")
    assert parts_of("solve(3, ")[1:] == ("case 3",)
    assert parts_of("7): got ")[1:] == ("number 7",)
    assert parts_of(", expected -4")[1:] == ("number -4",)
    assert parts_of("; -n")[1:] == ("expression -n",)
    assert len(parts_of("\n```")) == 1
    assert len({parts_of(piece) for piece in pieces()}) == len(pieces()), "no two pieces begin alike"
