"""How different two programs are: in their text, in their structure, in what they do. Each distance lies in [0, 1].

All three are symmetric and 0 between equal programs, and obey the triangle inequality (each says where that ends).
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from coevo.programs import Program, normal_form
from coevo.trajectories.settings import DistanceName

MAX_SYMBOLS = 4096
"""Of a sequence that is compared token by token; 4096 against 4096 take some 20 ms."""

MAX_NODES = 50_000
"""Of a syntax tree whose pq-grams are taken; what is larger is only equal or different."""

P, Q = 2, 3
"""Ancestors (the node itself counted) and siblings of a pq-gram."""

_TOKEN = re.compile(
    r"\n[ \t]*|[A-Za-z_]\w*|\d[\w.]*|\"\"\".*?\"\"\"|'''.*?'''|\"(?:\\.|[^\"\n\\])*\"|'(?:\\.|[^'\n\\])*'|[^\s\w]|\w+",
    re.DOTALL,
)

Grams = Counter[tuple[str, ...]]


@dataclass(frozen=True)
class Profile:
    """What the distances look at of one answer; made once per program."""

    tokens: tuple[str, ...]
    grams: Grams
    behaviour: tuple[str, ...] = ()
    """Per test: "passed", or how it failed."""
    fitness: float = 0.0


def profile(program: Program, *, behaviour: Sequence[str] = (), fitness: float = 0.0) -> Profile:
    """The profile of a program with its outcomes on public tests."""
    return Profile(tokens(program), pq_grams(program), tuple(behaviour), fitness)


def tokens(program: Program) -> tuple[str, ...]:
    """Python tokens of all files, without comments and spacing; line ends carry the indentation of the next line."""
    found: list[str] = []
    for name, text in program.files:
        if len(program.files) > 1:
            found.append(f"file {name}")
        found += _TOKEN.findall(normal_form(text))
    return tuple(found)


def token_distance(a: Sequence[str], b: Sequence[str]) -> float:
    """Normalised Levenshtein distance 2 L / (|a| + |b| + L), which is a metric (Li and Liu 2007, IEEE TPAMI 29(6)).

    Sequences of over `MAX_SYMBOLS` are compared by runs of tokens, as long as needed: still symmetric, and 0 only
    between equal ones, but the triangle inequality holds among pairs of one run length alone.
    """
    run = -(-max(len(a), len(b)) // MAX_SYMBOLS)
    if run > 1:
        return token_distance(*([tuple(s[i : i + run]) for i in range(0, len(s), run)] for s in (a, b)))  # type: ignore[arg-type]
    edits = levenshtein(a, b)
    return 2 * edits / (len(a) + len(b) + edits) if edits else 0.0


def levenshtein(a: Sequence[object], b: Sequence[object]) -> int:
    """Insertions, deletions and substitutions from one sequence to the other.

    Bit-parallel (Myers 1999, in Hyyrö's form of 2003) on Python's long integers: a column of the table is two of them.
    """
    first, last = 0, 0
    shorter = min(len(a), len(b))
    while first < shorter and a[first] == b[first]:
        first += 1
    while last < shorter - first and a[-1 - last] == b[-1 - last]:
        last += 1
    a, b = a[first : len(a) - last], b[first : len(b) - last]
    if not a or not b:
        return len(a) + len(b)
    places: dict[object, int] = {}
    for index, symbol in enumerate(a):
        places[symbol] = places.get(symbol, 0) | 1 << index
    mask, top, score = (1 << len(a)) - 1, 1 << (len(a) - 1), len(a)
    up, down = mask, 0  # Where the column rises, and where it falls, by one.
    for symbol in b:
        same = places.get(symbol, 0)
        vertical = same | down
        horizontal = (((same & up) + up) ^ up) | same
        rises, falls = down | ~(horizontal | up), up & horizontal
        score += (rises & top != 0) - (falls & top != 0)
        rises, falls = rises << 1 | 1, falls << 1
        up, down = (falls | ~(vertical | rises)) & mask, rises & vertical & mask
    return score


def pq_grams(program: Program) -> Grams:
    """The bag of pq-grams of a program's syntax trees (Augsten, Böhlen and Gamper, VLDB 2005): of every node, itself and its
    parent, with every window of three neighbouring children (padded by "*").

    Labels are the types of nodes (of constants, their type as well): names and values do not count. A file that is not
    Python, or too large, gives one gram of its own text.
    """
    grams: Grams = Counter()
    for name, text in program.files:
        label = name if len(program.files) > 1 else ""
        try:
            grams += _grams(ast.parse(text), label)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            grams[("text", label, normal_form(text))] += 1
    return grams


def _grams(tree: ast.AST, label: str) -> Grams:
    """Of one file. Raises `MemoryError` for a tree that is too large."""
    grams: Grams = Counter()
    stem = ("*",) * (P - 1)
    stack: list[tuple[ast.AST, tuple[str, ...]]] = [(tree, stem)]
    count = 0
    while stack:
        node, above = stack.pop()
        count += 1
        if count > MAX_NODES:
            raise MemoryError
        own = (*above, _label(node) if count > 1 else f"{_label(node)} {label}")[-P:]
        children = [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.expr_context)]
        if not children:
            grams[(*own, *("*",) * Q)] += 1
            continue
        row = [*("*",) * (Q - 1), *map(_label, children), *("*",) * (Q - 1)]
        grams.update((*own, *row[i : i + Q]) for i in range(len(row) - Q + 1))
        stack += [(child, own) for child in children]
    return grams


def _label(node: ast.AST) -> str:
    name = type(node).__name__
    return f"{name} {type(node.value).__name__}" if isinstance(node, ast.Constant) else name


def tree_distance(a: Grams, b: Grams) -> float:
    """1 - |a and b| / |a or b| over bags of pq-grams: the pq-gram distance in the normalisation of Augsten, Böhlen and Gamper
    (ACM TODS 35(1), 2010), a pseudo-metric on trees: different programs may have equal bags."""
    common = sum(min(count, b[gram]) for gram, count in a.items() if gram in b)
    union = a.total() + b.total() - common
    return 1 - common / union if union else 0.0


def behaviour_distance(a: Profile, b: Profile) -> float:
    """Share of public tests on which two programs do not end alike (Hamming); a test that one of them never reached differs.

    Without tests (kind open): |f - g| / max(|f|, |g|) of the fitnesses, a metric on numbers of one sign. Blind to
    everything but outcomes: a pseudo-metric on programs.
    """
    if a.behaviour or b.behaviour:
        longer = max(len(a.behaviour), len(b.behaviour))
        same = sum(x == y for x, y in zip(a.behaviour, b.behaviour, strict=False))
        return 1 - same / longer
    largest = max(abs(a.fitness), abs(b.fitness))
    return min(1.0, abs(a.fitness - b.fitness) / largest) if largest else 0.0


DISTANCES: Mapping[DistanceName, Callable[[Profile, Profile], float]] = {
    "token": lambda a, b: token_distance(a.tokens, b.tokens),
    "tree": lambda a, b: tree_distance(a.grams, b.grams),
    "behaviour": behaviour_distance,
}


def combined(weights: Mapping[DistanceName, float], a: Profile, b: Profile) -> float:
    """The mean of the named distances, by weight."""
    total = sum(weights.values())
    return sum(weight * DISTANCES[name](a, b) for name, weight in weights.items() if weight) / total
