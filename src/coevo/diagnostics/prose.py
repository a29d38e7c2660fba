"""Made-up replies for cases: words and programs that look like those of a policy, drawn from a case's own stream."""

from __future__ import annotations

from coevo.diagnostics.casebook import Spot

_WORDS = (
    *(
        "first",
        "then",
        "we",
        "check",
        "each",
        "value",
        "of",
        "the",
        "list",
        "and",
        "keep",
        "largest",
        "sum",
        "so",
        "far",
    ),
    *("because", "order", "matters", "here", "a", "sorted", "copy", "helps", "but", "costs", "time", "while", "one"),
    *(
        "pass",
        "over",
        "input",
        "is",
        "enough",
        "if",
        "counts",
        "are",
        "small",
        "edge",
        "case",
        "empty",
        "string",
        "gives",
    ),
    *(
        "zero",
        "negative",
        "numbers",
        "need",
        "care",
        "index",
        "starts",
        "at",
        "two",
        "pointers",
        "move",
        "window",
        "grows",
    ),
)


def words(spot: Spot, count: int) -> str:
    """`count` words in no order."""
    return " ".join(_WORDS[i] for i in spot.rng.integers(len(_WORDS), size=count))


def program(spot: Spot, kinds: int = 1_000_000, *, salt: int = 0) -> str:
    """A small Python program: one of `kinds` of the group's task."""
    kind = int(spot.rng.integers(kinds)) + salt
    body = (
        f"    total = {kind % 97}",
        f"    for x in xs[{kind % 7}:]:",
        f"        total += x * {kind % 1009} + {spot.group}",
    )
    return "\n".join(["def solve(xs):", *body, f"    return total % {kind % 10007 + 2}"])


def fenced(code: str) -> str:
    return f"```python\n{code}\n```"


def reply(spot: Spot, count: int = 40, kinds: int = 1_000_000) -> str:
    """Some words, then a program."""
    return f"{words(spot, count)}\n\n{fenced(program(spot, kinds))}\n"
