"""Suites: which tasks train, which choose, which report; and the proof that no split holds anything of another.

`train` feeds the recipes, `validation` sets the pilot's noise and chooses checkpoints, `test` reports, once. A test split is in
distribution (families that train, other tasks) or out of it (families that do not).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Literal, NamedTuple

from pydantic import Field

from coevo.config import Config
from coevo.errors import ConfigError, GateBlocked, pick
from coevo.tasks.loader import task_digest
from coevo.tasks.sets import load_tasks
from coevo.tasks.types import Task
from coevo.trajectories.splits import family_of

TRAIN, VALIDATION = "train", "validation"
_WORD = re.compile(r"\w+|[^\w\s]")


class SuiteConfig(Config):
    """A named set of splits. References are those of `coevo.tasks.sets` (names, folders, folders of folders, library:KIND) and
    `mini:PART:COUNT`, tasks of the mini model's puzzles: PART is train, validation, test, or unseen (families that never train)."""

    name: str = Field(default="suite", pattern=r"^[a-z0-9][a-z0-9_.-]*$")
    train: tuple[str, ...] = ()
    """Tasks that recipes train on. May be empty where no arm trains."""
    validation: tuple[str, ...] = ()
    """Tasks for the pilot, the choice of checkpoints and the probes."""
    test: dict[str, tuple[str, ...]] = Field(default_factory=dict, min_length=1)
    """Held-out splits by name ("id", "ood")."""
    unseen: tuple[str, ...] = ("ood",)
    """Test splits that share no family with train and validation."""
    limit: dict[str, int] = Field(default_factory=dict)
    """Of a split, by its name: only the first so many tasks."""
    ngram: int | None = Field(default=13, ge=3)
    """Statements of two splits may share no run of this many words and signs (13 is usual: GPT-3, arXiv 2005.14165, appendix C).
    None compares whole statements: for generated tasks, whose statements are made of few words."""
    boilerplate: int = Field(default=3, ge=2)
    """A run that stands in so many statements of one split is its form, not its content, and does not count."""
    overlap: Literal["refuse", "drop"] = "refuse"
    """What becomes of a task that shares something with one of a later split (train, validation, then the tests in their order): the
    study is refused, or the task is left out of the earlier split and listed."""


@dataclass(frozen=True)
class Suite:
    """A suite with its tasks loaded, and checked."""

    name: str
    splits: Mapping[str, tuple[Task, ...]]
    """By name, train and validation among them."""
    test: tuple[str, ...]
    unseen: frozenset[str]
    dropped: tuple[str, ...] = ()
    """What was left out since a later split shares something with it, a sentence each."""

    @property
    def tasks(self) -> list[Task]:
        """All of them."""
        return [task for tasks in self.splits.values() for task in tasks]

    def digest(self, split: str) -> str:
        """SHA-256 over the judges of a split: what its holdout ledger goes by."""
        total = hashlib.sha256()
        for task in sorted(self.splits[split], key=lambda task: task.name):
            total.update(f"{task.name}\x1f{task_digest(task)}\n".encode())
        return total.hexdigest()

    def facts(self) -> dict[str, dict[str, object]]:
        """Per split: tasks, families, digest."""
        return {
            name: {
                "tasks": len(tasks),
                "families": sorted({family_of(task) for task in tasks}),
                "digest": self.digest(name)[:16],
                "unseen": name in self.unseen,
            }
            for name, tasks in self.splits.items()
            if tasks
        }


class Overlap(NamedTuple):
    """A thing that tasks of two splits have in common. The splits are in order: the first one may give its task up."""

    split: str
    task: str
    later: str
    other: str
    what: str

    def __str__(self) -> str:
        return f"{self.task} ({self.split}) and {self.other} ({self.later}) have the same {self.what}"


def load_suite(config: SuiteConfig) -> Suite:
    """Load the tasks and check the splits. Raises `GateBlocked` where two splits share something that may not be dropped."""
    refs = {TRAIN: config.train, VALIDATION: config.validation, **config.test}
    if len(refs) < 2 + len(config.test):
        raise ConfigError(f"a test split may not be called {TRAIN!r} or {VALIDATION!r}; call it id or ood")
    splits = {name: tuple(tasks_of(given)[: config.limit.get(name)]) if given else () for name, given in refs.items()}
    for name in config.test:
        if not splits[name]:
            raise ConfigError(f"test split {name!r} of suite {config.name!r} has no tasks")
    suite = Suite(config.name, splits, tuple(config.test), frozenset(config.unseen) & frozenset(config.test))
    shared = overlaps(suite, ngram=config.ngram, boilerplate=config.boilerplate)
    if shared and config.overlap == "refuse":
        shown = "; ".join(map(str, shared[:5])) + (f"; and {len(shared) - 5} more" if len(shared) > 5 else "")
        raise GateBlocked(
            f"suite {config.name!r}: its splits are not apart: {shown}. Take these tasks out of one of the two splits, or set "
            "suite.overlap to drop"
        )
    out = {(one.split, one.task) for one in shared}
    kept = {name: tuple(t for t in tasks if (name, t.name) not in out) for name, tasks in splits.items()}
    if emptied := [name for name in kept if splits[name] and not kept[name]]:
        raise GateBlocked(
            f"suite {config.name!r}: every task of {emptied[0]!r} overlaps with a later split; take other tasks"
        )
    return replace(suite, splits=kept, dropped=tuple(map(str, shared)))


def tasks_of(refs: Sequence[str]) -> list[Task]:
    """The tasks that references name; `mini:PART:COUNT` are written to the cache at their first use."""
    plain: list[str] = []
    for ref in refs:
        head, _, rest = ref.partition(":")
        plain += _mini(rest, ref) if head == "mini" else [ref]
    return load_tasks(plain)


def _mini(text: str, ref: str) -> list[str]:
    from coevo.mini.families import SEEN, UNSEEN, Part
    from coevo.mini.tasks import write_tasks

    name, _, count = text.partition(":")
    if not count.isdecimal() or int(count) < 1:
        raise ConfigError(f"{ref!r}: write mini:PART:COUNT, as in mini:train:96")
    parts: dict[str, tuple[Iterable[str], Part]] = {
        "train": (SEEN, "train"),
        "validation": (SEEN, "validation"),
        "test": (SEEN, "test"),
        "unseen": (UNSEEN, "test"),
    }
    families, part = pick(name, parts, kind=f"part in {ref!r}")
    return [str(path) for path in write_tasks(tuple(families), part=part, count=int(count))]


def overlaps(suite: Suite, *, ngram: int | None, boilerplate: int) -> list[Overlap]:
    """What two splits have in common: tasks, judges, answers, families (of unseen splits), runs of words."""
    found: list[Overlap] = []
    filled = [name for name, tasks in suite.splits.items() if tasks]
    runs = {name: _runs(suite.splits[name], ngram) for name in filled}
    for a, b in combinations(filled, 2):
        x, y = suite.splits[a], suite.splits[b]
        found += _same(a, b, "name", {t.name: [t.name] for t in x}, {t.name: [t.name] for t in y})
        found += _same(a, b, "judge", {task_digest(t): [t.name] for t in x}, {task_digest(t): [t.name] for t in y})
        found += _same(a, b, "answer", _answers(x), _answers(y))
        if (a in suite.unseen) != (b in suite.unseen):
            found += _same(a, b, "family", _families(x), _families(y))
        form = {run for s in (a, b) for run, names in runs[s].items() if len(names) >= boilerplate}
        what = f"run of {ngram} words" if ngram else "statement"
        mine, theirs = ({run: names for run, names in runs[s].items() if run not in form} for s in (a, b))
        found += _same(a, b, what, mine, theirs)
    return found


def _same(a: str, b: str, what: str, mine: Mapping[str, list[str]], theirs: Mapping[str, list[str]]) -> list[Overlap]:
    """One overlap per pair of tasks that have a thing in common."""
    pairs = {(x, y) for key in mine.keys() & theirs.keys() for x in mine[key] for y in theirs[key]}
    return [Overlap(a, x, b, y, what) for x, y in sorted(pairs)]


def _answers(tasks: Iterable[Task]) -> dict[str, list[str]]:
    """Reference programs by id. A start program that two splits share gives nothing away, so it does not count."""
    return _grouped((task.reference.id, task.name) for task in tasks if task.reference is not None)


def _families(tasks: Iterable[Task]) -> dict[str, list[str]]:
    return _grouped((family_of(task), task.name) for task in tasks)


def _runs(tasks: Sequence[Task], length: int | None) -> dict[str, list[str]]:
    """Runs of so many words of the statements, with the tasks they stand in. A shorter statement is one run."""
    pairs: list[tuple[str, str]] = []
    for task in tasks:
        words = _WORD.findall(task.config.statement.lower())
        n = length or len(words)
        pairs += [(run, task.name) for run in {" ".join(words[i : i + n]) for i in range(max(1, len(words) - n + 1))}]
    return _grouped(pairs)


def _grouped(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for key, name in pairs:
        found.setdefault(key, []).append(name)
    return found
