"""A proposal of a diagnostic becomes a diagnostic."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from coevo.backtest.sandboxed import Bench, columns_of
from coevo.backtest.terms import Term
from coevo.backtest.types import Proposed
from coevo.diagnostics.types import Diagnostic, Layer, Levels, Measure, Reading
from coevo.errors import UsageError
from coevo.evidence.types import Frame

_ID = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
MAX_ID, MAX_WORDS, MAX_SOURCE = 64, 2_000, 20_000


@dataclass(frozen=True)
class Plain:
    """A proposal as plain data; satisfies `Proposed`."""

    id: str
    title: str
    formula: str
    means: str
    warn: float
    critical: float
    source_code: str = ""
    term: str = ""
    why: str = ""


def diagnostic_of(proposal: Proposed, *, bench: Bench | None = None) -> Diagnostic:
    """The diagnostic that a proposal describes. Raises `UsageError` naming what is wrong with it.

    `bench`: where a measure written as code runs; one of its own, opened when first used, without. Several diagnostics should share one.
    """
    _check(proposal)
    levels = Levels(float(proposal.warn), float(proposal.critical))
    if proposal.term.strip():
        term = Term.parse(proposal.term)
        measure, needs, formula = _of_term(term), term.needs, str(term)
    else:
        measure, needs, formula = _of_code(proposal.source_code, bench or Bench()), (), ""
    return Diagnostic(
        id=proposal.id,
        title=proposal.title or proposal.id,
        layer=Layer.BEHAVIOUR,
        formula=proposal.formula or formula,
        source="proposed in a lab",
        needs=needs,
        levels=levels,
        measure=measure,
        means=proposal.means,
        advice="Look at the rollouts of the branches in its table.",
    )


def _of_term(term: Term) -> Measure:
    def measure(frame: Frame, baseline: Frame | None) -> Reading:
        value = term.evaluate(frame)
        n = term.support(frame)
        if math.isnan(value):
            return Reading(None, f"{term} has no value on {n} rollouts", n)
        return Reading(value, f"{term} = {value:.4g}", n, series=term.course(frame))

    return measure


def _of_code(source: str, bench: Bench) -> Measure:
    def measure(frame: Frame, baseline: Frame | None) -> Reading:
        columns = columns_of(frame)
        n = len(columns["group"])
        value, why = bench.measure(source, columns)
        if value is None:
            return Reading(None, why, n)
        return Reading(value, f"{value:.4g}" + (f" on {n} of {frame.rows} rollouts" if n < frame.rows else ""), n)

    return measure


def _check(proposal: Proposed) -> None:
    what = f"diagnostic {str(proposal.id)[:MAX_ID]!r}"
    if not isinstance(proposal.id, str) or len(proposal.id) > MAX_ID or not _ID.fullmatch(proposal.id):
        raise UsageError(f"{what}: an id is words of a-z and 0-9 joined by '-', at most {MAX_ID} characters")
    for name in ("title", "formula", "means", "term", "source_code"):
        text = getattr(proposal, name)
        most = MAX_SOURCE if name == "source_code" else MAX_WORDS
        if not isinstance(text, str) or len(text) > most:
            raise UsageError(f"{what}: {name} must be a text of at most {most:,} characters")
    for name in ("warn", "critical"):
        value = getattr(proposal, name)
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise UsageError(f"{what}: {name} must be a finite number, not {value!r}")
    if bool(proposal.term.strip()) == bool(proposal.source_code.strip()):
        raise UsageError(f"{what}: give either a term or source_code, and not both")
