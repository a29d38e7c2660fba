"""The mini model's tokenizer: a byte-level alphabet, and one token for every text that all its prompts share.

The prompt of a search is mostly constant English, which a model of a million parameters has no use for. So the constant pieces
are cut out of what `coevo.evolution.prompt.build_messages` really writes, and each becomes one token; so do the lines of the
puzzles' programs, the expressions that statements list, and the parts of a failing test: its case, its argument, the value
expected. Whatever else a prompt or a reply holds is spelt in bytes, digits one by one: any text can be encoded, and decoding gives
it back. The prompt itself is the one that every model gets.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from coevo.errors import UsageError
from coevo.evaluation.feedback import suite_feedback
from coevo.evaluation.types import TestResult
from coevo.evolution.prompt import TaskView, build_messages
from coevo.evolution.types import Attempt, Context, Edit
from coevo.mini.families import EXPRESSIONS, MOST_CASES, PUBLIC_PER_CASE, TOP, source, statement
from coevo.mini.tasks import ENTRY, LIMITS
from coevo.programs import Program
from coevo.tasks.types import Kind, TaskConfig

PAD, END = "<|pad|>", "<|end|>"
ROLES = ("system", "user", "assistant")
CONTEXT = 1024
"""Tokens of prompt and reply together."""

TEMPLATE = (
    "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)

_HOLE = "\ue000"
"""Stands for what varies, in prompts that are made to be cut up."""
_VARYING = re.compile(rf"{_HOLE}|(?<=: )fitness \d[\d.]* \(correctness [\d.]+\)")


def view_of(text: str) -> TaskView:
    """What a model may know of a puzzle with this statement: as `TaskView.of` its task."""
    return TaskView.of(TaskConfig(name="mini", kind=Kind.FUNCTION, entry=ENTRY, statement=text, limits=LIMITS))


def make_tokenizer() -> Any:
    """A `PreTrainedTokenizerFast`, the same at every call."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    special = [PAD, END, *(f"<|{role}|>" for role in ROLES)]
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: i for i, token in enumerate([*special, *alphabet])}
    raw = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)  # type: ignore[assignment]
    raw.decoder = decoders.ByteLevel()  # type: ignore[assignment]
    raw.add_tokens([AddedToken(text, normalized=False, special=False) for text in pieces()])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=raw,
        pad_token=PAD,
        eos_token=END,
        additional_special_tokens=special[2:],
        model_max_length=CONTEXT,
        clean_up_tokenization_spaces=False,
    )
    tokenizer.chat_template = TEMPLATE
    return tokenizer


def pieces() -> list[str]:
    """Every text that is one token, without doubles, in a fixed order. Where several fit, the longest is taken."""
    return list(dict.fromkeys([*_boilerplate(), *_measures(), *_statements(), *_feedback(), *_code()]))


_CASE = re.compile(rf"(?:k == |{ENTRY}\(|^\n {{8}})(\d+)")
_NUMBER = re.compile(r"(?:, expected |^)(-?\d+)(?=$|\): got )")


def parts_of(text: str) -> tuple[str, ...]:
    """What a piece is made of: its frame and, where it has them, its case, its number and its expression.

    The line of case 2 that returns `n + 5` and the list's `n + 5` share a part; so do that line and `solve(2, `.
    """
    parts: list[str] = []
    bare = text.removesuffix(",")
    if inner := next((e for e in sorted(EXPRESSIONS, key=len, reverse=True) if bare.endswith(e)), None):
        parts.append(f"expression {inner}")
        text = bare.removesuffix(inner)
    for kind, pattern in (("case", _CASE), ("number", _NUMBER)):
        if found := pattern.search(text):
            parts.append(f"{kind} {found[1]}")
            text = text[: found.start(1)] + text[found.end(1) :]
    return (f"frame {text}", *parts)


def _boilerplate() -> Iterator[str]:
    """The constant pieces of prompts and replies."""
    program = Program.of(source("chain", ["n", "k"]))
    attempt = Attempt(program, 0.5, 0.5, feedback=_HOLE)
    other = Attempt(Program.of(source("chain", ["k", "n"])), 0.25, 0.25, feedback=_HOLE)
    third = Attempt(Program.of(source("chain", ["k", "k"])), 0.25, 0.25)
    contexts = [
        Context(attempt),
        Context(Attempt(program, 0.5, 0.5)),
        Context(attempt, history=(other,)),
        Context(attempt, history=(third, other)),
        Context(attempt, inspirations=(other, third)),
        Context(attempt, rejected=_HOLE),
        Context(attempt, inspirations=(other,), history=(third,)),
    ]
    for style in (Edit.REWRITE, Edit.DIFF, Edit.CROSSOVER, Edit.WRITE):
        for context in contexts:
            try:
                messages = build_messages(view_of(_HOLE), context, style=style)
            except UsageError:  # A style that no prompt is built for.
                continue
            for message in messages:
                text = message.content
                for attempts in (context.parent, *context.history, *context.inspirations):
                    text = text.replace(attempts.program.source.rstrip(), _HOLE)
                yield from filter(None, _VARYING.split(text))
    yield from ("```python\n", "\n```", "<<<<<<< SEARCH", "\n<<<<<<< SEARCH", "\n=======", "\n>>>>>>> REPLACE")


def _measures() -> Iterator[str]:
    """What a prompt says of a program that passes so many of the public tests."""
    program = Program.of(source("chain", ["n", "k"]))
    shares = {passed / tests for tests in _SUITES for passed in range(tests + 1)}
    for share in sorted(shares):
        _, user = build_messages(view_of(_HOLE), Context(Attempt(program, share, share)), style=Edit.REWRITE)
        found = _VARYING.search(user.content.partition("# Current program")[2])
        assert found, "the prompt names the fitness of the current program"
        yield found[0]


def _statements() -> Iterator[str]:
    for cases in _CASES:
        yield statement(cases, ()).removesuffix(".")
    for text in EXPRESSIONS:
        yield from (text, f"; {text}")


def _feedback() -> Iterator[str]:
    """The frames of feedback on several lines, as a current program has it, and on one, as earlier attempts have it."""
    lines: list[str] = [f"- test {i}: " for i in range(1, _SUITES[-1] + 1)]
    for tests in _SUITES:
        for passed in range(tests + 1):
            results = [TestResult(f"test {i + 1}", i < passed, "wrong", _HOLE) for i in range(tests)]
            lines += (line for line in suite_feedback(results).split("\n") if _HOLE not in line)
    for line in dict.fromkeys(lines):
        if line.startswith("Passed"):
            yield line
        else:
            yield from (f"\n{line}", f" {line}")
    for n in range(1, TOP + 1):
        yield f"{n}): got "
    values = [e.at(n) for e in EXPRESSIONS.values() for n in range(1, TOP + 1)]
    for value in range(min(values), max(values) + 1):
        yield f", expected {value}"
    for k in range(MOST_CASES):
        yield f"{ENTRY}({k}, "


def _code() -> Iterator[str]:
    """The lines of programs: a case and its expression are one token."""
    for shape in ("chain", "dict"):
        for text in EXPRESSIONS:
            whole = source(shape, [text] * MOST_CASES).rstrip("\n")
            marks = r"(?=\n    if)|(?=\n    return)" if shape == "chain" else r"(?=\n        \d)|(?=\n    })"
            yield from re.split(marks, whole)


_CASES = range(2, MOST_CASES + 1)
"""Numbers of cases that prompts have tokens for."""
_SUITES = [PUBLIC_PER_CASE * cases for cases in _CASES]
"""Numbers of public tests."""


def encode(tokenizer: Any, texts: Iterable[str]) -> list[list[int]]:
    """Ids of whole texts, nothing added."""
    return tokenizer(list(texts), add_special_tokens=False)["input_ids"]
