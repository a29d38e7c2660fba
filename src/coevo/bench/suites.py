"""Suites: which tasks train, which choose, which report; and the proof that no split holds anything of another.

`train` feeds the recipes, `validation` sets the pilot's noise and chooses checkpoints, `test` reports, once. A test split is in
distribution (families that train, other tasks) or out of it (families that do not).
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from pydantic import Field

from coevo.bench.records import family_of
from coevo.config import Config
from coevo.errors import ConfigError, GateBlocked
from coevo.tasks.loader import task_digest
from coevo.tasks.sets import load_tasks
from coevo.tasks.types import Task

TRAIN, VALIDATION = "train", "validation"
_WORD = re.compile(r"\w+|[^\w\s]")


class SuiteConfig(Config):
    """A named set of splits. References are those of `coevo.tasks.sets`: names, folders, folders of folders, library:KIND."""

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


@dataclass(frozen=True)
class Suite:
    """A suite with its tasks loaded, and checked."""

    name: str
    splits: Mapping[str, tuple[Task, ...]]
    """By name, train and validation among them."""
    test: tuple[str, ...]
    unseen: frozenset[str]

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


def load_suite(config: SuiteConfig) -> Suite:
    """Load the tasks and check the splits. Raises `GateBlocked` where two splits share something."""
    refs = {TRAIN: config.train, VALIDATION: config.validation, **config.test}
    if len(refs) < 2 + len(config.test):
        raise ConfigError(f"a test split may not be called {TRAIN!r} or {VALIDATION!r}; call it id or ood")
    splits = {name: tuple(load_tasks(given)[: config.limit.get(name)]) if given else () for name, given in refs.items()}
    for name in config.test:
        if not splits[name]:
            raise ConfigError(f"test split {name!r} of suite {config.name!r} has no tasks")
    suite = Suite(config.name, splits, tuple(config.test), frozenset(config.unseen) & frozenset(config.test))
    if shared := overlaps(suite, ngram=config.ngram, boilerplate=config.boilerplate):
        shown = "; ".join(shared[:5]) + (f"; and {len(shared) - 5} more" if len(shared) > 5 else "")
        raise GateBlocked(
            f"suite {config.name!r}: its splits are not apart: {shown}. Take these tasks out of one of the two splits"
        )
    return suite


def overlaps(suite: Suite, *, ngram: int | None, boilerplate: int) -> list[str]:
    """What two splits have in common, a sentence each: tasks, families of unseen splits, programs, runs of words."""
    found: list[str] = []
    filled = [name for name, tasks in suite.splits.items() if tasks]
    runs = {name: _runs(suite.splits[name], ngram) for name in filled}
    for a, b in combinations(filled, 2):
        found += _same(a, b, "task", *({t.name: t.name for t in suite.splits[s]} for s in (a, b)))
        found += _same(a, b, "judge", *({task_digest(t): t.name for t in suite.splits[s]} for s in (a, b)))
        found += _same(a, b, "program", *(_programs(suite.splits[s]) for s in (a, b)))
        if (a in suite.unseen) != (b in suite.unseen):
            found += _same(a, b, "family", *({family_of(t): t.name for t in suite.splits[s]} for s in (a, b)))
        form = {run for s in (a, b) for run, names in runs[s].items() if len(names) >= boilerplate}
        content = ({run: names[0] for run, names in runs[s].items() if run not in form} for s in (a, b))
        found += _same(a, b, f"run of {ngram} words" if ngram else "statement", *content)
    return found


def _same(a: str, b: str, what: str, mine: Mapping[str, str], theirs: Mapping[str, str]) -> list[str]:
    """One sentence per pair of tasks that have a thing in common."""
    pairs = sorted({(mine[key], theirs[key]) for key in mine.keys() & theirs.keys()})
    return [f"{x} ({a}) and {y} ({b}) have the same {what}" for x, y in pairs]


def _programs(tasks: Iterable[Task]) -> dict[str, str]:
    """Reference programs by id: the answers. A start program that two splits share gives nothing away, so it does not count."""
    return {task.reference.id: task.name for task in tasks if task.reference is not None}


def _runs(tasks: Sequence[Task], length: int | None) -> dict[str, list[str]]:
    """Runs of so many words of the statements, with the tasks they stand in. A shorter statement is one run."""
    found: dict[str, list[str]] = {}
    for task in tasks:
        words = _WORD.findall(task.config.statement.lower())
        n = length or len(words)
        for run in {" ".join(words[i : i + n]) for i in range(max(1, len(words) - n + 1))}:
            found.setdefault(run, []).append(task.name)
    return found
