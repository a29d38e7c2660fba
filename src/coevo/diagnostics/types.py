"""Diagnostics, findings and rules: values and pure functions. Nothing here reads a file."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from coevo.evidence.types import Frame


class Layer(StrEnum):
    """What a diagnostic looks at; a diagnosis is read in this order."""

    MEASUREMENT = "measurement"
    """Was it measured at all: infrastructure errors, missing rows, step-0 parity."""
    SCORE = "score"
    """Is it getting better, and is that true: reward, truth, format and meaning."""
    SIGNAL = "signal"
    """Is there anything to learn from: dead groups, spread, ties, filters, advantages."""
    POLICY = "policy"
    """What becomes of the distribution: entropy, log-probabilities, divergence."""
    BEHAVIOUR = "behaviour"
    """What it does: length, repetition, copies, diversity, tools, tests."""


class Level(StrEnum):
    OK = "ok"
    WARN = "warn"
    CRITICAL = "critical"
    UNKNOWN = "unknown"
    """The evidence does not carry what it takes, or too little of it."""


class Levels(NamedTuple):
    """Where the value of a reading becomes worth a word. `critical` over `warn`: high is bad; under it: low is bad."""

    warn: float
    critical: float

    def of(self, value: float | None) -> Level:
        if value is None:
            return Level.UNKNOWN
        sign = 1 if self.critical >= self.warn else -1
        if sign * value >= sign * self.critical:
            return Level.CRITICAL
        return Level.WARN if sign * value >= sign * self.warn else Level.OK


class Reading(NamedTuple):
    """What a diagnostic read off a frame."""

    value: float | None
    """The number that the levels are on; None: the evidence does not say, `note` says why."""
    note: str = ""
    """What was seen, in a clause, with its numbers."""
    n: int = 0
    """Rollouts (or groups) it rests on."""
    rows: tuple[int, ...] = ()
    """Row numbers (`Frame.number_of`) of at most a handful that show it best."""
    series: tuple[tuple[float, float], ...] = ()
    """(step, value), where it has a course; at most some hundred points."""


Measure = Callable[[Frame, Frame | None], Reading]
"""Reads a frame, beside a baseline's where there is one (an ancestor's, say). Pure, deterministic, and fast: a million rows take a second."""


class Case(NamedTuple):
    """Evidence that a diagnostic must judge in this way: its specification, and its test."""

    name: str
    rows: Callable[[], Sequence[Mapping[str, Any]]]
    level: Level
    baseline: Callable[[], Sequence[Mapping[str, Any]]] | None = None


@dataclass(frozen=True)
class Diagnostic:
    """A named metric over rollouts, with the levels at which it speaks and the cases it must separate."""

    id: str
    """kebab-case; rules, proposals and skills cite it."""
    title: str
    layer: Layer
    formula: str
    """In words and symbols; exact enough to write it again."""
    source: str
    """Paper and section, issue, or "ours"."""
    needs: tuple[str, ...]
    """Columns without which it says nothing; "|" between alternatives."""
    levels: Levels
    measure: Measure
    means: str
    """What it means when it speaks."""
    advice: str
    """What one does then."""
    cases: tuple[Case, ...] = ()
    needs_baseline: bool = False
    split: str = "train"
    """The rows it is given: those that training saw (all, where no row is called so), those of another split, or "" for all."""


class Finding(NamedTuple):
    """A diagnostic's word on one frame."""

    diagnostic: str
    level: Level
    reading: Reading
    layer: Layer

    def to_dict(self) -> dict[str, Any]:
        """The stable form that skills' triggers and agents read: id, layer, level, value, note, n, rows, series."""
        return {
            "id": self.diagnostic,
            "layer": str(self.layer),
            "level": str(self.level),
            "value": self.reading.value,
            "note": self.reading.note,
            "n": self.reading.n,
            "rows": list(self.reading.rows),
            "series": [list(point) for point in self.reading.series],
        }


@dataclass(frozen=True)
class Rule:
    """What several findings together mean."""

    id: str
    cites: tuple[str, ...]
    """Ids of diagnostics it looks at."""
    when: Callable[[Mapping[str, Finding]], bool]
    """Of the findings by id; those it cites are there, perhaps as unknown."""
    says: str
    suggests: tuple[str, ...] = ()
    """Families of interventions (`coevo.lab.types.Family` values), the most promising first."""
    level: Level = Level.WARN


class Fired(NamedTuple):
    """A rule that applies."""

    rule: str
    level: Level
    says: str
    cites: tuple[str, ...]
    suggests: tuple[str, ...]


@dataclass(frozen=True)
class Diagnosis:
    """All that the evidence says, and what it cannot."""

    findings: tuple[Finding, ...]
    fired: tuple[Fired, ...] = ()
    unknown: Mapping[str, str] = field(default_factory=dict)
    """Diagnostic -> why it says nothing: the column that is missing, a baseline, too few groups."""
    rows: int = 0
    source: str = ""

    def finding(self, diagnostic: str) -> Finding | None:
        return next((f for f in self.findings if f.diagnostic == diagnostic), None)

    def at(self, *levels: Level) -> tuple[Finding, ...]:
        return tuple(f for f in self.findings if f.level in levels)

    def to_dict(self) -> dict[str, Any]:
        """Schema 1 of a diagnosis: what `coevo diagnose --json` prints, and what a skill's trigger gets on stdin."""
        return {
            "schema": 1,
            "source": self.source,
            "rows": self.rows,
            "findings": {f.diagnostic: f.to_dict() for f in self.findings},
            "rules": [{**f._asdict(), "level": str(f.level)} for f in self.fired],
            "unknown": dict(self.unknown),
        }
