"""Terms worth trying: an enumeration for the playbook, and a screening of them on past branches."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import chain, zip_longest
from typing import Any, NamedTuple

import numpy as np

from coevo.backtest.diagnostic import ALPHA
from coevo.backtest.separation import auc, fit_levels, separation
from coevo.backtest.syntax import HIDDEN, Column, write
from coevo.backtest.terms import Term
from coevo.backtest.types import Known, Past
from coevo.diagnostics.types import Levels
from coevo.errors import UsageError
from coevo.evidence.types import TEXTS, WORDS, Frame

MOST = 120
"""Candidates at most."""

_SKIPPED = (*HIDDEN, *TEXTS, "sample", "group", "step", "kept", "advantage", "wall_s", "cost_usd", "task", "kind")
_CODES = ("text.opening", "text.shape", "text.sketch")
"""Numbers that only stand for something: equal or not is all they say."""
_SCORES = ("reward", "truth", "fitness", "correctness", "efficiency")
_FLAGS = ("contract_ok", "meaning_ok", "text.copies_parent", "text.self_test", "text.search_first")
DEAD = "0.000001"


def candidates(columns: Sequence[str], *, most: int = MOST) -> list[Term]:
    """Terms over these columns (`Frame.columns`), the more promising kinds first, always in the same order, at most `most`.

    Of each number: its mean, its drift, how far it goes with the reward within groups, its spread within groups; of scores, whether they part from
    the truth; of codes and words, how many different ones there are.
    """
    known = [name for name in dict.fromkeys(columns) if name not in _SKIPPED]
    codes = [n for n in known if n.startswith(_CODES) or n in ("program_hash",)]
    words = [n for n in known if n in WORDS and n not in codes]
    numbers = [n for n in known if n not in words and n not in codes]
    scores = [n for n in numbers if n in _SCORES or n.startswith("parts.")]
    rest = [n for n in numbers if n not in scores]
    has = set(known)
    families = [
        _apart(scores, has),
        (f"drift(mean({_name(n)}))" for n in (*rest, *scores)),
        (f"share(by_group(spread({_name(n)})) <= {DEAD})" for n in scores if n != "truth"),
        (f"mean({_name(n)})" for n in rest),
        (f"corr(centred({_name(n)}), centred(reward))" for n in rest if "reward" in has),
        (f"mean(by_group(distinct({_name(n)})))" for n in codes),
        (f"drift(mean(centred({_name(n)}) * centred(reward)))" for n in rest if "reward" in has),
        (f"mean(by_group(sd({_name(n)})))" for n in numbers if n not in _FLAGS),
        (f"share({word})" for word in _said(words)),
        (f"corr(centred({_name(n)}), centred(truth))" for n in (*scores, *rest) if "truth" in has and n != "truth"),
        (f"mean({_name(n)})" for n in scores),
        (f"corr(by_step(mean({_name(n)})), by_step(mean(truth)))" for n in scores if "truth" in has and n != "truth"),
        (f"ratio({_name(n)}, reward)" for n in scores if n.startswith("parts.") and "reward" in has),
        (f"mean(where({_name(n)}, truth <= 0))" for n in scores if "truth" in has and n != "truth"),
    ]
    texts = dict.fromkeys(text for text in chain.from_iterable(zip_longest(*families)) if text)
    return [Term.parse(text) for _, text in zip(range(most), texts, strict=False)]


class Screened(NamedTuple):
    """A candidate, judged by past branches."""

    term: Term
    auc: float
    """With its better direction as the bad one."""
    p: float
    """Of the best of all candidates, either way up: that many were looked at is paid for."""
    levels: Levels
    values: tuple[float, ...]
    """On the branches of known outcome."""

    def to_dict(self) -> dict[str, Any]:
        """As a lab's brief shows it."""
        return {
            "term": str(self.term),
            "auc": self.auc,
            "p": self.p,
            "warn": self.levels.warn,
            "critical": self.levels.critical,
        }


class Screening(NamedTuple):
    """The best candidates, and what all gave: `family` is what `admit` wants to know of a term that was picked here."""

    best: tuple[Screened, ...]
    family: tuple[tuple[float, ...], ...]
    tried: int
    """Candidates with a value on every branch of known outcome."""
    terms: tuple[Term, ...] = ()
    """Those, in the order of `family`."""

    def family_of(self, term: str) -> tuple[tuple[float, ...], ...]:
        """What `admit` is to be told of a proposal of this term: the family, if it was among those that were tried, however it is written; else nothing."""
        try:
            known = Term.parse(term) in self.terms
        except UsageError:
            return ()
        return self.family if known else ()

    def to_dict(self) -> dict[str, Any]:
        return {"tried": self.tried, "best": [one.to_dict() for one in self.best]}


def screen(
    branches: Sequence[Past], terms: Sequence[Term] | None = None, *, seed: int, most: int = 5, training: bool = True
) -> Screening:
    """Try candidates on branches of known outcome; the `most` that separate best, no two of which give the same ranking of the branches.

    `terms`: all `candidates` of the columns that every branch has, by default. `training`: look at split `train` only, where there is one: a diagnostic made of a
    term does. Without a good and a bad branch nothing can be screened: an empty result.
    """
    past = [b for b in branches if b.known is not Known.UNKNOWN]
    bad = np.array([b.known is Known.BAD for b in past], dtype=bool)
    if not 0 < bad.sum() < len(bad):
        return Screening((), (), 0)
    frames = [_training(b.frame) if training else b.frame for b in past]
    if terms is None:
        shared = [name for name in frames[0].columns if all(frame.has(name) for frame in frames[1:])]
        terms = candidates(shared)
    table = {term: tuple(term.evaluate(frame) for frame in frames) for term in terms}
    table = {term: values for term, values in table.items() if all(map(math.isfinite, values))}
    ranked = sorted(table, key=lambda term: -_strength(table[term], bad))
    family = tuple(table.values())
    found: list[Screened] = []
    seen: set[tuple[int, ...]] = set()
    for term in ranked:
        values = table[term]
        shape = _shape(values)
        if len(found) == most or len(set(values)) == 1:
            break
        if shape in seen or _shape(tuple(-v for v in values)) in seen:
            continue
        seen.add(shape)
        high = auc(np.array(values), bad) >= 0.5
        judged = separation(values, bad.tolist(), high_is_bad=high, seed=seed, family=family)
        assert judged.auc is not None and judged.p is not None
        levels = fit_levels(values, bad.tolist(), high_is_bad=high)
        found.append(Screened(term, judged.auc, judged.p, _apart_levels(levels, high), values))
    return Screening(tuple(found), family, len(table), tuple(table))


def worth(screening: Screening, alpha: float = ALPHA) -> tuple[Screened, ...]:
    """Those that hold although so many were tried."""
    return tuple(one for one in screening.best if one.p <= alpha)


def _apart(scores: Sequence[str], has: set[str]) -> Iterator[str]:
    """Where what is paid parts from what is true."""
    if "truth" in has:
        for name in scores:
            if name != "truth":
                yield f"drift(mean({_name(name)})) - drift(mean(truth))"
    if "truth" in has and "fitness" in has:
        yield "mean(fitness - truth)"
        yield "share(fitness - truth > 0.1)"
    if {"truth", "parent_fitness", "reward"} <= has:
        yield "share(reward > 0 and truth <= parent_fitness)"
        yield "mean(where(reward, truth > parent_fitness)) - mean(where(reward, truth <= parent_fitness))"
    if {"contract_ok", "meaning_ok"} <= has:
        yield "drift(mean(contract_ok)) - drift(mean(meaning_ok))"


def _said(words: Sequence[str]) -> Iterator[str]:
    if "stop_reason" in words:
        yield 'stop_reason == "length"'
    if "unmeasured_reason" in words:
        yield 'unmeasured_reason != ""'


def _name(column: str) -> str:
    return write(Column(column))


def _training(frame: Frame) -> Frame:
    rows = frame.is_word("split", "train")
    return frame.where(rows) if rows.any() and not rows.all() else frame


def _strength(values: Sequence[float], bad: np.ndarray) -> float:
    return abs(auc(np.array(values), bad) - 0.5)


def _shape(values: Sequence[float]) -> tuple[int, ...]:
    """The ranking of the branches."""
    order = {value: i for i, value in enumerate(sorted(set(values)))}
    return tuple(order[value] for value in values)


def _apart_levels(levels: Levels, high: bool) -> Levels:
    """Two levels that are equal say nothing of their direction: the second goes one rounding further."""
    if levels.critical != levels.warn:
        return levels
    return Levels(levels.warn, math.nextafter(levels.warn, math.inf if high else -math.inf))
