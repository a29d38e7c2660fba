"""What the mini model reads before any reinforcement: puzzles, programs, what tests say of them, and edits of every kind.

An example is a prompt, as searches write it, and a reply. Worked exercises come first: there the reply repairs what its tests
show to be wrong. What follows is what careless programmers do: few of them know better. So the model comes out of it with the language
(programs, how results follow from them, the form of an answer), with a skill that it rarely uses, and with many habits of editing, of
which few are good. Which of them pay is left to reinforcement.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import Field

from coevo.config import Config
from coevo.evaluation.feedback import MAX_FAILURES, suite_feedback
from coevo.evaluation.types import TestResult
from coevo.evolution.prompt import build_messages
from coevo.evolution.types import Attempt, Context, Edit
from coevo.mini.families import COMMON, MOST_CASES, RARE, Expression, Family, Puzzle, draw_puzzle, draw_start
from coevo.mini.tokens import view_of
from coevo.models.types import Message
from coevo.programs import Program
from coevo.streams import stream

Cases = tuple[Expression, ...]


class CorpusConfig(Config):
    """Which examples, and how often."""

    write: float = Field(default=0.05, ge=0, le=1)
    """Share of examples that show the statement alone and answer with a program."""
    diff: float = Field(default=0.0, ge=0, le=1)
    """Share of the edits that are asked for, and answered, as SEARCH/REPLACE."""
    history: float = Field(default=0.3, ge=0, le=1)
    """Share of the edits that show an earlier attempt."""
    replies: int = Field(default=6, ge=1)
    """Answers to each prompt, drawn independently; an exercise has one."""
    listed: float = Field(default=0.5, ge=0, le=1)
    """Chance that a new expression is one of the statement's list; else it is any."""
    habits: dict[str, float] = Field(
        default_factory=lambda: {
            "copy": 0.1,
            "one": 0.35,
            "two": 0.15,
            "three": 0.05,
            "failing": 0.2,
            "informed": 0.15,
        },
        min_length=1,
    )
    """Weights of what an edit does. copy: nothing. one, two, three: that many cases get a new expression. failing: one
    that the feedback names as wrong. informed: that one, with an expression that agrees with the test shown."""


@dataclass(frozen=True)
class Example:
    messages: tuple[Message, ...]
    replies: tuple[str, ...]
    """Several independent answers to the same prompt, which has to be computed only once for all of them."""


def draw_example(config: CorpusConfig, seed: int, index: int, *, exercise: bool = False) -> Example:
    """Example `index` of the corpus with this seed: a function of its arguments.

    An exercise shows the same prompts, and its one reply gives every case that the feedback shows to be wrong a listed
    expression that agrees with all tests shown of it.
    """
    if exercise:
        config = config.model_copy(update={"replies": 1})
    rng = stream(seed, "mini", "exercise" if exercise else "corpus", index)
    puzzle = draw_puzzle(_family(rng), "train", rng)
    if rng.random() < config.write:
        return _written(config, puzzle, rng)
    shown = list(_attempts(puzzle, 2 if rng.random() < config.history else 1, rng))
    (parent, cases), *earlier = shown
    style = Edit.DIFF if rng.random() < config.diff else Edit.REWRITE
    context = Context(parent, history=tuple(attempt for attempt, _ in earlier))
    messages = build_messages(view_of(puzzle.statement), context, style=style)
    if exercise:
        children = [_repaired(puzzle, cases, rng)]
    else:
        children = [_edited(config, puzzle, cases, rng) for _ in range(config.replies)]
    return Example(messages, tuple(answer(puzzle, cases, child, style) for child in children))


def answer(puzzle: Puzzle, cases: Cases, child: Cases, style: Edit) -> str:
    """The reply that makes `child` of `cases`, in the form that the style asks for."""
    if style is not Edit.DIFF:
        return f"```python\n{puzzle.source(child)}```"
    old, new = (_lines(puzzle, version) for version in (cases, child))
    changed = [pair for pair in zip(old, new, strict=True) if pair[0] != pair[1]] or [(old[-1], old[-1])]
    return "\n".join(f"<<<<<<< SEARCH{a}\n======={b}\n>>>>>>> REPLACE" for a, b in changed)


def _lines(puzzle: Puzzle, cases: Cases) -> list[str]:
    """What a program says of each case, with the line end before it."""
    marks = r"(?=\n    if k)|(?=\n    return)" if puzzle.family.shape == "chain" else r"(?=\n        \d)|(?=\n    })"
    return re.split(marks, puzzle.source(cases).rstrip("\n"))[1 : len(cases) + 1]


def attempt_of(puzzle: Puzzle, cases: Cases) -> Attempt:
    """A program with the fitness and feedback that its public tests give it."""
    results = []
    for i, (k, n) in enumerate(puzzle.public, 1):
        got, expected = cases[k].at(n), puzzle.expected(k, n)
        said = "" if got == expected else f"solve({k}, {n}): got {got}, expected {expected}"
        results.append(TestResult(f"test {i}", got == expected, "wrong", said))
    share = sum(result.passed for result in results) / len(results)
    return Attempt(Program.of(puzzle.source(cases)), share, share, feedback=suite_feedback(results))


def _family(rng: random.Random) -> Family:
    """Any number of cases, any shape, any expressions: the language is wider than the puzzles that are trained on."""
    shape = "dict" if rng.random() < 0.3 else "chain"
    cases = rng.randint(3, MOST_CASES)
    pool = COMMON if rng.random() < 0.5 else (*COMMON, *RARE)
    return Family("corpus", "any", cases, shape, pool, distractors=rng.randint(0, 4))


def _attempts(puzzle: Puzzle, count: int, rng: random.Random) -> list[tuple[Attempt, Cases]]:
    """The current program first, and an earlier one from which it may come."""
    right = rng.random()
    current = tuple(
        case if rng.random() < right else rng.choice(puzzle.listed if rng.random() < 0.7 else COMMON)
        for case in puzzle.cases
    )
    found = [(attempt_of(puzzle, current), current)]
    if count > 1:
        k = rng.randrange(len(current))
        earlier = (*current[:k], rng.choice(puzzle.listed), *current[k + 1 :])
        if rng.random() < 0.3:
            earlier = draw_start(puzzle.cases, puzzle.listed, rng)
        found.append((attempt_of(puzzle, earlier), earlier))
    return sorted(found, key=lambda pair: -(pair[0].fitness or 0.0))


def _shown(puzzle: Puzzle, cases: Cases) -> list[tuple[int, int]]:
    """Arguments of the failing tests that the feedback shows."""
    return [(k, n) for k, n in puzzle.public if cases[k].at(n) != puzzle.expected(k, n)][:MAX_FAILURES]


def _repaired(puzzle: Puzzle, cases: Cases, rng: random.Random) -> Cases:
    child, tests = list(cases), _shown(puzzle, cases)
    for k in dict.fromkeys(k for k, _ in tests):
        numbers = [n for case, n in tests if case == k]
        child[k] = rng.choice([e for e in puzzle.listed if all(e.at(n) == puzzle.expected(k, n) for n in numbers)])
    return tuple(child)


def _edited(config: CorpusConfig, puzzle: Puzzle, cases: Cases, rng: random.Random) -> Cases:
    habit = rng.choices(list(config.habits), list(config.habits.values()))[0]
    tests = _shown(puzzle, cases)
    if habit in ("failing", "informed") and tests:
        k, n = rng.choice(tests)
        if habit == "failing":
            return _changed(config, puzzle, cases, [k], rng)
        expected = puzzle.expected(k, n)
        fitting = [e for e in puzzle.listed if e.at(n) == expected]
        return (*cases[:k], rng.choice(fitting), *cases[k + 1 :])
    count = {"copy": 0, "one": 1, "two": 2, "three": 3, "failing": 1, "informed": 1}[habit]
    return _changed(config, puzzle, cases, rng.sample(range(len(cases)), count), rng)


def _changed(config: CorpusConfig, puzzle: Puzzle, cases: Cases, which: Sequence[int], rng: random.Random) -> Cases:
    child = list(cases)
    for k in which:
        child[k] = _new(config, puzzle, rng)
    return tuple(child)


def _new(config: CorpusConfig, puzzle: Puzzle, rng: random.Random) -> Expression:
    return rng.choice(puzzle.listed if rng.random() < config.listed else puzzle.family.pool)


def _written(config: CorpusConfig, puzzle: Puzzle, rng: random.Random) -> Example:
    """The statement alone, and some program for it."""
    context = Context(Attempt(Program.of(puzzle.source(puzzle.start)), None))
    messages = build_messages(view_of(puzzle.statement), context, style=Edit.WRITE)
    start, all_cases = puzzle.start, range(len(puzzle.cases))
    children = [_changed(config, puzzle, start, all_cases, rng) for _ in range(config.replies)]
    return Example(messages, tuple(answer(puzzle, start, child, Edit.WRITE) for child in children))
