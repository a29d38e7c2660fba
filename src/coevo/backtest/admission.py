"""Admission of new diagnostics: how a harness's eyes may change.

A proposal is replayed on past branches. It is admitted when it is reproducible, has a value on most branches, tells invalid or failed branches from good ones better
than chance can at that n, does so by what rollouts do and not by which branch they are of, and says something that existing diagnostics do not. The
replay's table is kept as its birth certificate. With too few branches the answer is "cannot be known yet", with the number it takes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from coevo.backtest.diagnostic import ALPHA, DiagnosticBacktest, Table, backtest_tables, table_of, tables_of, what_shows
from coevo.backtest.disguise import disguised
from coevo.backtest.separation import accuracy, auc, fit_levels, least_branches, left_out_accuracy
from coevo.backtest.types import Known, Past
from coevo.diagnostics.types import Diagnostic, Levels

DEFINED = 0.8
"""Share of the branches of known outcome on which it must have a value."""
SAME = 0.95
"""Rank correlation with an existing diagnostic from which on it says the same."""
LEVELS = 0.75
"""Balanced accuracy that proposed levels must reach to be kept; else they are fitted to the branches."""
KEPT = 0.5
"""Share of the separation beyond chance (AUC - 1/2) that must be left once branches are disguised."""


class Check(NamedTuple):
    """One requirement, and what was found."""

    name: str
    passed: bool
    says: str


@dataclass(frozen=True)
class Admission:
    """Whether a diagnostic is admitted, why, and all that it rests on."""

    diagnostic: str
    admitted: bool
    reason: str
    checks: tuple[Check, ...]
    backtest: DiagnosticBacktest
    levels: Levels
    """To use: as proposed, or fitted where those do not fit the branches."""
    fitted: bool
    alpha: float

    @property
    def table(self) -> Table:
        return self.backtest.table

    def to_dict(self) -> dict[str, Any]:
        """The birth certificate."""
        return {
            "schema": 1,
            "diagnostic": self.diagnostic,
            "admitted": self.admitted,
            "reason": self.reason,
            "checks": [check._asdict() for check in self.checks],
            "levels": self.levels._asdict(),
            "levels_fitted": self.fitted,
            "alpha": self.alpha,
            "backtest": self.backtest.to_dict(),
        }


def admit(
    diagnostic: Diagnostic,
    branches: Sequence[Past],
    existing: Mapping[str, Diagnostic] | None = None,
    *,
    seed: int,
    alpha: float = ALPHA,
    tried: int = 1,
    family: Sequence[Sequence[float]] = (),
) -> Admission:
    """Decide on a new diagnostic by a replay on past branches.

    `tried`: how many proposals were replayed on these same branches, this one included: it must then hold at alpha / tried (Bonferroni). `family`: for a term picked
    from candidates by these branches (`coevo.backtest.candidates.screen`), what the candidates gave; p is then of the best of them.
    """
    table = table_of(diagnostic, branches)
    others = tables_of({id: d for id, d in (existing or {}).items() if id != diagnostic.id}, branches)
    found = backtest_tables(table, others, seed=seed, family=family)
    level = alpha / max(1, tried)
    checks: list[Check] = []
    for check in (
        lambda: _is_new(diagnostic, existing or {}),
        lambda: _is_knowable(found, level, picked=bool(family)),
        lambda: _is_defined(table),
        lambda: _varies(table),
        lambda: _repeats(diagnostic, branches, table),
        lambda: _separates(found, level, tried),
        lambda: _is_no_label(diagnostic, branches, found, seed),
        lambda: _adds(found),
    ):
        checks.append(check())
        if not checks[-1].passed:
            break
    levels, fitted = levels_for(diagnostic.levels, table)
    admitted = all(check.passed for check in checks)
    reason = found_well(found, level) if admitted else f"{checks[-1].name}: {checks[-1].says}"
    return Admission(diagnostic.id, admitted, reason, tuple(checks), found, levels, fitted, level)


def levels_for(proposed: Levels, table: Table) -> tuple[Levels, bool]:
    """Levels as proposed where they judge the branches well enough (balanced accuracy `LEVELS`) or there is nothing to fit; else fitted ones."""
    values, bad = table.judged()
    if not 0 < sum(bad) < len(bad) or accuracy(values, bad, proposed) >= LEVELS:
        return proposed, False
    fitted = fit_levels(values, bad, high_is_bad=table.high_is_bad)
    return (fitted, True) if accuracy(values, bad, fitted) > accuracy(values, bad, proposed) else (proposed, False)


def found_well(found: DiagnosticBacktest, alpha: float) -> str:
    s = found.separation
    return f"AUC {s.auc:.2f} on {s.good} good and {s.bad} bad branches, p = {s.p:.3g} (needed {alpha:.3g})"


# Checks


def _is_new(diagnostic: Diagnostic, existing: Mapping[str, Diagnostic]) -> Check:
    taken = diagnostic.id in existing
    return Check(
        "new", not taken, f"a diagnostic {diagnostic.id!r} exists; choose another id" if taken else "its id is free"
    )


def _is_knowable(found: DiagnosticBacktest, alpha: float, *, picked: bool) -> Check:
    """Of a diagnostic that was picked either way up, the smallest p is twice as large."""
    known = [e.known for e in found.table.entries]
    good, bad = known.count(Known.GOOD), known.count(Known.BAD)
    ways = 2 if picked else 1
    says = what_shows(good, bad, alpha, ways=ways)
    enough = found.smallest_p is not None and ways * found.smallest_p <= alpha
    return Check("knowable", enough, says if enough else f"cannot be known yet: {says}")


def _is_defined(table: Table) -> Check:
    """On good and bad branches alike: what speaks only where things are well would be judged on a selection."""
    for known in (Known.GOOD, Known.BAD):
        entries = [e for e in table.entries if e.known is known]
        lacking = [e for e in entries if e.value is None]
        if len(lacking) > (1 - DEFINED) * len(entries) + 1e-9:
            first = lacking[0]
            return Check(
                "defined",
                False,
                f"it has no value on {len(lacking)} of {len(entries)} {known} branches (at most {1 - DEFINED:.0%} may lack one), "
                f"first {first.branch}: {first.why}",
            )
    return Check("defined", True, f"it has a value on {table.defined:.0%} of the branches")


def _varies(table: Table) -> Check:
    values, _ = table.judged()
    flat = bool(values) and max(values) - min(values) <= 1e-9 * max(1.0, max(map(abs, values)))
    return Check(
        "varies", not flat, f"it is {values[0]:.4g} on every branch" if flat else "it differs between branches"
    )


def _repeats(diagnostic: Diagnostic, branches: Sequence[Past], table: Table) -> Check:
    """The same on a second reading, to the last bit."""
    again = table_of(diagnostic, branches)
    for a, b in zip(table.entries, again.entries, strict=True):
        if a.value != b.value:
            return Check("deterministic", False, f"on {a.branch} it said {a.value!r}, and then {b.value!r}")
    return Check("deterministic", True, "it said the same twice")


def _separates(found: DiagnosticBacktest, alpha: float, tried: int) -> Check:
    s = found.separation
    if s.auc is None or s.p is None:
        return Check("separates", False, "it has no value on either the good or the bad branches")
    paid = f" (0.05 over {tried} proposals tried on these branches)" if tried > 1 else ""
    how = "exact" if s.exact else "by drawn permutations"
    says = f"AUC {s.auc:.2f} on {s.good} good and {s.bad} bad branches, p = {s.p:.3g}, {how}; needed: p <= {alpha:.3g}{paid}"
    return Check("separates", s.p <= alpha + 1e-12, says)


def _is_no_label(diagnostic: Diagnostic, branches: Sequence[Past], found: DiagnosticBacktest, seed: int) -> Check:
    """Its separation must survive when branches are stripped of what tells them apart but behaviour: see `disguise`."""
    known = [b for b in branches if b.known is not Known.UNKNOWN]
    table = table_of(diagnostic, disguised(known, seed=seed))
    values, bad = table.judged()
    told = found.separation.auc or 0.5
    if not 0 < sum(bad) < len(bad):
        return Check("behaviour", False, "it has no value once steps are renumbered and branches are cut to one size")
    left = auc(np.array(values), np.array(bad), high_is_bad=table.high_is_bad)
    fine = left - 0.5 >= KEPT * (told - 0.5) - 1e-9
    says = f"AUC {left:.2f} once steps are renumbered, rows shuffled and branches cut to one size, {told:.2f} before"
    return Check(
        "behaviour", fine, says if fine else f"{says}: it tells which branch it is, or how large, not what it does"
    )


def _adds(found: DiagnosticBacktest) -> Check:
    own = found.separation.auc or 0.0
    twins = [
        id
        for id, rho in found.correlations.items()
        if abs(rho) >= SAME and abs(found.aucs.get(id, 0.5) - 0.5) >= own - 0.5 - 1e-9
    ]
    if twins:
        rho = found.correlations[twins[0]]
        return Check(
            "adds", False, f"it says what {twins[0]!r} says (rank correlation {rho:.2f}), which separates as well"
        )
    best = max(found.aucs, key=lambda id: found.aucs[id], default="")
    if found.missed:
        partial = found.partial_auc
        fine = partial is not None and partial > 0.5
        shown = "no value" if partial is None else f"AUC {partial:.2f}"
        return Check(
            "adds", fine, f"{shown} on the {len(found.missed)} bad branches that no existing diagnostic caught"
        )
    fine = own > found.aucs.get(best, 0.0) + 1e-9
    if not best:
        return Check("adds", True, "there are no diagnostics to compare it with")
    return Check(
        "adds",
        fine,
        f"existing ones catch every bad branch; the best, {best!r}, has AUC {found.aucs[best]:.2f}, this one {own:.2f}",
    )


# Later


class Review(NamedTuple):
    """What becomes of an admitted diagnostic after more branches."""

    diagnostic: str
    action: str
    """keep, revise (its levels) or retire."""
    reason: str
    levels: Levels
    """To use from now on."""
    left_out: float | None
    """Balanced accuracy of fitted levels on branches they were not fitted to; None with too few."""
    current: float | None
    """Of the levels as they are."""
    table: Table

    def to_dict(self) -> dict[str, Any]:
        return {
            **{k: v for k, v in self._asdict().items() if k != "table"},
            "levels": self.levels._asdict(),
            "table": [entry.to_dict() for entry in self.table.entries],
        }


RETIRE = 0.6
"""AUC on later branches up to which a diagnostic is retired: hardly better than a coin."""


def review(diagnostic: Diagnostic, branches: Sequence[Past], *, alpha: float = ALPHA) -> Review:
    """Judge an admitted diagnostic by branches that came after its admission.

    Fewer than `least_branches(alpha)` of either kind decide nothing: keep. Then: no value on most, or an AUC of at most `RETIRE`: retire. Levels are revised (to the
    midpoint between the groups) when such levels, judged on branches they were not fitted to, beat the present ones.
    """
    table = table_of(diagnostic, branches)
    known = [e.known for e in table.entries if e.known is not Known.UNKNOWN]
    good, bad, least = known.count(Known.GOOD), known.count(Known.BAD), least_branches(alpha)

    def verdict(action: str, reason: str, levels: Levels = diagnostic.levels, *numbers: float | None) -> Review:
        left_out, current = numbers or (None, None)
        return Review(diagnostic.id, action, reason, levels, left_out, current, table)

    if min(good, bad) < least:
        return verdict("keep", f"{good} good and {bad} bad later branches decide nothing; {least} of each would")
    values, marks = table.judged()
    if table.defined < DEFINED or not 0 < sum(marks) < len(marks):
        return verdict("retire", f"it has a value on only {table.defined:.0%} of {len(known)} later branches")
    found = auc(np.array(values), np.array(marks), high_is_bad=table.high_is_bad)
    if found <= RETIRE:
        return verdict(
            "retire",
            f"AUC {found:.2f} on {good} good and {bad} bad later branches; at most {RETIRE} is hardly better than a coin",
        )
    current = accuracy(values, marks, diagnostic.levels)
    left_out = left_out_accuracy(values, marks, high_is_bad=table.high_is_bad)
    if left_out is not None and left_out > current + 1e-9:
        fitted = fit_levels(values, marks, high_is_bad=table.high_is_bad)
        reason = f"AUC {found:.2f}, but its levels judge {current:.0%} of the branches rightly; fitted ones {left_out:.0%} of branches left out"
        return verdict("revise", reason, fitted, left_out, current)
    return verdict(
        "keep",
        f"AUC {found:.2f}; its levels judge {current:.0%} of the later branches rightly",
        diagnostic.levels,
        left_out,
        current,
    )
