"""What of the training rows would give away a held-out task: overlapping statements, and programs that solve it.

Texts are compared by runs of n words or tokens (n-grams), the usual check of training data against benchmarks: n = 13 words as in
GPT-3 (Brown et al. 2020, appendix C), an overlap counted by the share of runs as in PaLM (Chowdhery et al. 2022, section 8), 50 tokens for code
as in Lee et al. 2022. The share is of the shorter text (containment, Broder 1997), so that a short text inside a long one counts.
Programs are compared by the hash of their normal form as well, which no comment or spacing escapes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from coevo.programs import Program
from coevo.trajectories.distances import tokens
from coevo.trajectories.settings import ContaminationConfig

_WORD = re.compile(r"\w+")


@dataclass(frozen=True)
class Hit:
    """One thing that was found."""

    what: str
    """statement or program"""
    against: str
    """The held-out task, and where it is from."""
    why: str


class Overlaps:
    """Texts by name, and which of them a new text overlaps with. Memory is linear in what was added."""

    def __init__(self, n: int, share: float, *, whole: bool) -> None:
        """`whole`: texts shorter than `n` count as one run (so only equal ones overlap), instead of not at all."""
        self._n, self._share, self._whole = n, share, whole
        self._holders: dict[int, list[int]] = {}
        self._names: list[str] = []
        self._sizes: list[int] = []

    def add(self, name: str, words: Sequence[str]) -> None:
        grams = self._grams(words)
        if not grams:
            return
        index = len(self._names)
        self._names.append(name)
        self._sizes.append(len(grams))
        for gram in grams:
            self._holders.setdefault(gram, []).append(index)

    def find(self, words: Sequence[str]) -> tuple[str, float] | None:
        """The text that `words` overlap with most, and the share; None below the bound."""
        grams = self._grams(words)
        common = Counter(index for gram in grams for index in self._holders.get(gram, ()))
        shares = {index: count / min(len(grams), self._sizes[index]) for index, count in common.items()}
        best = max(shares, key=lambda index: (shares[index], -index), default=None)
        if best is None or shares[best] < self._share:
            return None
        return self._names[best], shares[best]

    def _grams(self, words: Sequence[str]) -> set[int]:
        if len(words) < self._n:
            return {_hash(words)} if self._whole and words else set()
        return {_hash(words[i : i + self._n]) for i in range(len(words) - self._n + 1)}


def _hash(words: Sequence[str]) -> int:
    text = "\0".join(words).encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(text, digest_size=8).digest(), "big")


class Held:
    """What must not be trained on."""

    def __init__(self, config: ContaminationConfig) -> None:
        self.config = config
        self._statements = Overlaps(config.ngram, config.overlap, whole=True)
        self._programs = Overlaps(config.program_ngram, config.overlap, whole=False)
        self._hashes: dict[str, str] = {}
        self._seen: set[Hashable] = set()

    def add(self, name: str, statement: str, programs: Iterable[Program] = ()) -> None:
        """A held-out task: its statement, and programs that solve it. What was added before is not added again."""
        if self.config.statements and ("statement", name, statement) not in self._seen:
            self._seen.add(("statement", name, statement))
            self._statements.add(name, words(statement))
        for program in programs:
            if self.config.programs and program.id not in self._hashes:
                self._hashes[program.id] = name
                self._programs.add(name, tokens(program))

    def __bool__(self) -> bool:
        return bool(self._seen or self._hashes)

    def in_statement(self, statement: str) -> Hit | None:
        """Whether a statement overlaps with a held-out one."""
        found = self._statements.find(words(statement)) if self.config.statements else None
        if found is None:
            return None
        name, share = found
        return Hit("statement", name, f"{share:.0%} of runs of {self.config.ngram} words in common")

    def in_program(self, program: Program) -> Hit | None:
        """Whether a program is, or overlaps with, one that solves a held-out task."""
        if not self.config.programs:
            return None
        if name := self._hashes.get(program.id):
            return Hit("program", name, f"the same normal form ({program.id})")
        found = self._programs.find(tokens(program))
        if found is None:
            return None
        name, share = found
        return Hit("program", name, f"{share:.0%} of runs of {self.config.program_ngram} tokens in common")


def words(text: str) -> list[str]:
    """Lower-case words, without punctuation."""
    return _WORD.findall(text.lower())
