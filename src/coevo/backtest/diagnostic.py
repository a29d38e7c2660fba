"""A diagnostic, replayed on branches of which the outcome is known: does it tell good from bad, and does it say what the others do not?"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from coevo.backtest.separation import Separation, auc, least_branches, rank_correlation, separation
from coevo.backtest.types import Entry, Known, Past
from coevo.diagnostics.diagnose import diagnose
from coevo.diagnostics.types import Diagnostic, Level

ALPHA = 0.05
"""One-sided level at which a separation is believed."""
LOUDNESS = {Level.UNKNOWN: 0, Level.OK: 0, Level.WARN: 1, Level.CRITICAL: 2}


@dataclass(frozen=True)
class Table:
    """What one diagnostic says of every branch."""

    diagnostic: str
    high_is_bad: bool
    entries: tuple[Entry, ...]

    def judged(self) -> tuple[list[float], list[bool]]:
        """Values, and whether they are of bad branches, where both are known."""
        found = [
            (e.value, e.known is Known.BAD)
            for e in self.entries
            if e.value is not None and e.known is not Known.UNKNOWN
        ]
        return [value for value, _ in found], [bad for _, bad in found]

    @property
    def defined(self) -> float:
        """Share of the branches of known outcome that it has a value on."""
        known = [e.value is not None for e in self.entries if e.known is not Known.UNKNOWN]
        return sum(known) / len(known) if known else 0.0

    def caught(self) -> set[str]:
        """Bad branches on which it speaks louder than on any good one: with words, not with a ranking after the fact."""
        loudest = max((LOUDNESS[e.level] for e in self.entries if e.known is Known.GOOD), default=0)
        return {e.branch for e in self.entries if e.known is Known.BAD and LOUDNESS[e.level] > loudest}

    def auc(self) -> float | None:
        values, bad = self.judged()
        if not 0 < sum(bad) < len(bad):
            return None
        return auc(np.array(values), np.array(bad), high_is_bad=self.high_is_bad)


@dataclass(frozen=True)
class DiagnosticBacktest:
    """What a diagnostic would have been worth."""

    table: Table
    separation: Separation
    """On the branches that it has a value on."""
    smallest_p: float | None
    """The least p that the branches of known outcome could give at all."""
    missed: tuple[str, ...]
    """Bad branches that no existing diagnostic caught (see `Table.caught`)."""
    partial_auc: float | None
    """AUC with only those as the bad ones; None where there are none."""
    correlations: Mapping[str, float]
    """Spearman's correlation of its values with each existing diagnostic's, over all branches."""
    aucs: Mapping[str, float]
    """Of each existing diagnostic."""
    note: str
    """What so many branches can show."""

    @property
    def prediction(self) -> float | None:
        """The number that is held against what came of it (`coevo.backtest.tracking`)."""
        return self.separation.auc

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": "diagnostic",
            "diagnostic": self.table.diagnostic,
            "table": [entry.to_dict() for entry in self.table.entries],
            **self.separation._asdict(),
            "smallest_p": self.smallest_p,
            "defined": self.table.defined,
            "missed": list(self.missed),
            "partial_auc": self.partial_auc,
            "correlations": dict(self.correlations),
            "aucs": dict(self.aucs),
            "note": self.note,
            "prediction": self.prediction,
        }


def table_of(diagnostic: Diagnostic, branches: Sequence[Past]) -> Table:
    """Replay one diagnostic. What it cannot say is an entry without a value."""
    return tables_of({diagnostic.id: diagnostic}, branches)[diagnostic.id]


def tables_of(diagnostics: Mapping[str, Diagnostic], branches: Sequence[Past]) -> dict[str, Table]:
    """Replay several on all branches, by id."""
    entries: dict[str, list[Entry]] = {id: [] for id in diagnostics}
    for branch in branches:
        said = diagnose(branch.frame, branch.baseline, diagnostics=diagnostics, rules=())
        for finding in said.findings:
            reading = finding.reading
            entries[finding.diagnostic].append(
                Entry(branch.name, branch.known, reading.value, finding.level, reading.note)
            )
    return {
        id: Table(id, diagnostic.levels.critical >= diagnostic.levels.warn, tuple(entries[id]))
        for id, diagnostic in diagnostics.items()
    }


def backtest_diagnostic(
    diagnostic: Diagnostic,
    branches: Sequence[Past],
    existing: Mapping[str, Diagnostic] | None = None,
    *,
    seed: int = 0,
    family: Sequence[Sequence[float]] = (),
) -> DiagnosticBacktest:
    """Does it separate good from bad branches, by how much more than chance, and beyond what `existing` ones say?

    Exact at any n: with 3 good and 3 bad branches even a perfect separation has p = 0.05. `family`: see `coevo.backtest.separation.separation`.
    """
    others = {id: one for id, one in (existing or {}).items() if id != diagnostic.id}
    return backtest_tables(table_of(diagnostic, branches), tables_of(others, branches), seed=seed, family=family)


def backtest_tables(
    table: Table, others: Mapping[str, Table], *, seed: int = 0, family: Sequence[Sequence[float]] = ()
) -> DiagnosticBacktest:
    """The same of replays that were made before."""
    values, bad = table.judged()
    found = separation(values, bad, high_is_bad=table.high_is_bad, seed=seed, family=family)
    known = [e.known for e in table.entries]
    good, sick = known.count(Known.GOOD), known.count(Known.BAD)
    caught = set().union(*(other.caught() for other in others.values())) if others else set()
    missed = tuple(e.branch for e in table.entries if e.known is Known.BAD and e.branch not in caught)
    left = [e for e in table.entries if e.known is Known.GOOD or e.branch in missed]
    correlations = {
        id: rho for id, other in others.items() if (rho := rank_correlation(_values(table), _values(other))) is not None
    }
    return DiagnosticBacktest(
        table=table,
        separation=found,
        smallest_p=_smallest(good, sick),
        missed=missed,
        partial_auc=Table(table.diagnostic, table.high_is_bad, tuple(left)).auc(),
        correlations=correlations,
        aucs={id: value for id, other in others.items() if (value := other.auc()) is not None},
        note=what_shows(good, sick),
    )


def what_shows(good: int, bad: int, alpha: float = ALPHA, *, ways: int = 1) -> str:
    """What so many branches can show, for a person. `ways`: 2 where it was not said beforehand whether high or low is bad."""
    least = least_branches(alpha / ways)
    needed = f"{least} of each are the least that can show p <= {alpha:.3g}"
    smallest = _smallest(good, bad)
    if smallest is None:
        return f"{good} good and {bad} bad branches show nothing; {needed}"
    either = "" if ways == 1 else ", which side is bad being picked by them,"
    told = f"with {good} good and {bad} bad branches{either} the smallest possible p is {ways * smallest:.3g}"
    return told if ways * smallest <= alpha else f"{told}; {needed}"


def _smallest(good: int, bad: int) -> float | None:
    return 1 / math.comb(good + bad, bad) if good and bad else None


def _values(table: Table) -> list[float]:
    return [math.nan if entry.value is None else entry.value for entry in table.entries]
