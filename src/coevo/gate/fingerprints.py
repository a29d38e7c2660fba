"""Fingerprints of answers, so that training data can be searched for them by a gate that never holds them.

A text is taken as words (runs of letters and digits, and single signs, lower case, without white space); its fingerprints are hashes
of its runs of `RUN` words (13, as in Brown et al. 2020, appendix C), or of the whole where it is shorter. Programs count by their
normal form as well: the id of the `Program`, which is what `program_hash` holds.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping

RUN = 13
LEAST = 6
"""Words of an answer under which it is too common to say anything ("42")."""
MOST = 512
"""Fingerprints kept of one answer: those with the smallest hashes, so that any text that holds it all is found."""
COVERED = 0.8
"""Share of an answer's fingerprints that one text must hold. A single run of words may be two lines that short programs have in common; who has nearly all of an
answer has seen it."""
SHARED = 2
"""Tasks whose answers hold the same words: of more, these words are the way such answers begin, and no one's."""
_WORD = re.compile(r"\w+|[^\w\s]")


def fingerprints(texts: Iterable[str], *, programs: Iterable[str] = ()) -> tuple[str, ...]:
    """Of one task's answers: reference programs, expected outputs, hidden tests. `programs` are ids of answer programs."""
    found: set[str] = set()
    for text in texts:
        words = _words(text)
        if len(words) >= LEAST:
            found |= set(sorted(_hashes(words, min(RUN, len(words))))[:MOST])
    return tuple(sorted(found | {f"program:{program}" for program in programs if program}))


class Finder:
    """Finds tasks' answers in texts."""

    def __init__(self, answers: Mapping[str, Iterable[str]]) -> None:
        self._tasks: dict[str, set[str]] = {}
        for task, marks in answers.items():
            for mark in marks:
                self._tasks.setdefault(mark, set()).add(task)
        self._common = {mark for mark, tasks in self._tasks.items() if len(tasks) > SHARED}
        self._whole = self._sizes(lambda mark: True)
        self._own = self._sizes(lambda mark: mark not in self._common)
        self._runs = sorted({int(mark.split(":", 1)[0]) for mark in self._tasks if mark[:1].isdigit()})

    def _sizes(self, counted: Callable[[str], bool]) -> Counter[str]:
        words = [mark for mark in self._tasks if not mark.startswith("program:") and counted(mark)]
        return Counter(task for mark in words for task in self._tasks[mark])

    def in_text(self, text: str) -> set[str]:
        """Tasks of whose answers this text holds `COVERED` or more: of all of it, and of what it does not share with many. Where little is its own,
        a line or two would pass for the whole."""
        words = _words(text)
        marks = {mark for run in self._runs for mark in _hashes(words, run) if mark in self._tasks}
        whole = Counter(task for mark in marks for task in self._tasks[mark])
        own = Counter(task for mark in marks - self._common for task in self._tasks[mark])
        return {t for t, n in own.items() if n >= COVERED * self._own[t] and whole[t] >= COVERED * self._whole[t]}

    def of_program(self, program: str) -> set[str]:
        """Tasks of which the program of this id is an answer."""
        mark = f"program:{program}"
        return self._tasks.get(mark, set()) if mark not in self._common else set()


def _words(text: str) -> list[str]:
    return _WORD.findall(text.lower())


def _hashes(words: list[str], run: int) -> Iterator[str]:
    """LENGTH:HASH of every run of so many words."""
    for i in range(len(words) - run + 1):
        text = " ".join(words[i : i + run]).encode("utf-8", "surrogatepass")
        yield f"{run}:{hashlib.blake2b(text, digest_size=8).hexdigest()}"
