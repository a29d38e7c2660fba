"""Proposals as data: reading what an agent wrote, saying what is missing, and scoring what it predicted.

A proposal without cited evidence or without a prediction is not refused in general words: it goes back with the name of the field.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import Annotated, Any, Literal
from unicodedata import category

from pydantic import AfterValidator, Field

from coevo.config import Config, parse
from coevo.diagnostics.types import Diagnosis
from coevo.errors import CoevoError, ConfigError
from coevo.gate.types import Judgement
from coevo.lab.types import Brief, Change, DiagnosticProposal, Family, Prediction, Proposal

TRUTH = "truth"
"""The metric of a prediction about true ability; any other is a diagnostic's id."""


class AgentReply(CoevoError):
    """An agent's reply is no proposal; the message names what is missing or wrong, and goes back to the agent."""


def shown(text: str) -> str:
    """A text of an agent's as it can be shown anywhere: control characters (escape sequences, NUL), lone surrogates and marks that turn the
    direction of writing become U+FFFD; lines and tabs stay."""
    return "".join("\ufffd" if (category(c) in ("Cc", "Cs") and c not in "\n\t") or c in _TURNING else c for c in text)


_TURNING = frozenset("\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
_Words = Annotated[str, AfterValidator(shown)]


class _Change(Config):
    sets: dict[str, Any] = Field(default_factory=dict)
    files: dict[str, str | None] = Field(default_factory=dict)
    weights: dict[str, str] = Field(default_factory=dict)
    bundle: _Words = Field(default="", max_length=4000)
    ablation: tuple[str, ...] = ()


class _Prediction(Config):
    metric: str = Field(min_length=1)
    direction: Literal["up", "down"]
    size: float | None = Field(default=None, ge=0)
    confidence: float = Field(default=0.5, ge=0, le=1)


class ProposalForm(Config):
    """A proposal as an agent writes it."""

    family: Family
    hypothesis: _Words = Field(min_length=1, max_length=4000)
    evidence: tuple[_Words, ...] = Field(max_length=100)
    change: _Change
    prediction: _Prediction
    success: _Words = Field(min_length=1, max_length=2000)
    rollback: _Words = Field(min_length=1, max_length=2000)
    wrong_if: _Words = Field(default="", max_length=2000)
    skill: _Words = Field(default="", max_length=200)


class DiagnosticForm(Config):
    """A new diagnostic as an agent writes it."""

    id: str = Field(pattern=r"^[a-z][a-z0-9-]{1,63}$")
    title: _Words = Field(min_length=1, max_length=200)
    formula: _Words = Field(min_length=1, max_length=2000)
    means: _Words = Field(min_length=1, max_length=2000)
    warn: float
    critical: float
    source_code: str = Field(default="", max_length=20_000)
    term: str = Field(default="", max_length=2000)
    why: _Words = Field(default="", max_length=4000)


def proposal_of(data: Any, *, where: str = "proposal") -> Proposal:
    """The proposal that plain data says. Raises `AgentReply` naming the fields that are missing or wrong."""
    form = _form(ProposalForm, data, where)
    return Proposal(
        family=form.family,
        hypothesis=form.hypothesis,
        evidence=form.evidence,
        change=Change(**form.change.model_dump()),
        prediction=Prediction(**form.prediction.model_dump()),
        success=form.success,
        rollback=form.rollback,
        wrong_if=form.wrong_if,
        skill=form.skill,
    )


def proposal_dict(proposal: Proposal) -> dict[str, Any]:
    """Plain data: `proposal_of(proposal_dict(p)) == p`."""
    change = proposal.change
    return {
        "family": str(proposal.family),
        "hypothesis": proposal.hypothesis,
        "evidence": list(proposal.evidence),
        "change": {
            "sets": dict(change.sets),
            "files": dict(change.files),
            "weights": dict(change.weights),
            "bundle": change.bundle,
            "ablation": list(change.ablation),
        },
        "prediction": proposal.prediction._asdict(),
        "success": proposal.success,
        "rollback": proposal.rollback,
        "wrong_if": proposal.wrong_if,
        "skill": proposal.skill,
    }


def diagnostic_proposal_of(data: Any, *, where: str = "diagnostic") -> DiagnosticProposal:
    """The new diagnostic that plain data says. Raises `AgentReply`."""
    form = _form(DiagnosticForm, data, where)
    if bool(form.source_code) == bool(form.term):
        raise AgentReply(f"{where}: give either source_code or term, and not both")
    if form.warn == form.critical:
        raise AgentReply(f"{where}: warn and critical are both {form.warn:g}; their order says which direction is bad")
    return DiagnosticProposal(**form.model_dump())


def diagnostic_proposal_dict(proposal: DiagnosticProposal) -> dict[str, Any]:
    """Plain data: `diagnostic_proposal_of(diagnostic_proposal_dict(p)) == p`."""
    return dict(vars(proposal))


def _form(cls: type[Any], data: Any, where: str) -> Any:
    if not isinstance(data, Mapping):
        raise AgentReply(f"{where}: a mapping of names to values is wanted, not a {type(data).__name__}")
    try:
        return parse(cls, data, where=where)
    except ConfigError as e:
        raise AgentReply(str(e)) from None


# What a proposal lacks


def problems_of(proposal: Proposal, brief: Brief) -> list[str]:
    """Why the proposal goes back, one line each, beginning with the field's name; empty for one that can be tried.

    What only the resolved recipes can tell (whether a leaf exists, whether its value is allowed) is checked where the change is applied.
    """
    return [*_of_evidence(proposal, brief), *_of_prediction(proposal, brief), *_of_change(proposal, brief)]


def citable(brief: Brief) -> tuple[str, ...]:
    """The ids that evidence may name: diagnostics, rules, branches and skills of the brief."""
    names = [f.diagnostic for f in brief.diagnosis.findings]
    names += [fired.rule for fired in brief.diagnosis.fired]
    names += [branch.name for branch in (brief.parent, *brief.past)]
    names += [skill.name for skill in brief.skills]
    return tuple(dict.fromkeys(names))


def _of_evidence(proposal: Proposal, brief: Brief) -> list[str]:
    known = citable(brief)
    if not proposal.evidence:
        return [f"evidence: cite at least one id of the brief, as {', '.join(known[:5])}"]
    return [
        f"evidence: {name!r} is nothing in the brief.{_hint(name, known)} Cite diagnostics, rules, branches or skills by id"
        for name in proposal.evidence
        if name not in known
    ]


def _of_prediction(proposal: Proposal, brief: Brief) -> list[str]:
    known = (TRUTH, *(f.diagnostic for f in brief.diagnosis.findings), *brief.diagnosis.unknown)
    metric, direction, size, confidence = proposal.prediction
    found = []
    if metric not in known:
        found.append(
            f"prediction.metric: {metric!r} is not measured here.{_hint(metric, known)} Use 'truth' or a diagnostic's id"
        )
    if direction not in ("up", "down"):
        found.append(f"prediction.direction: 'up' or 'down', not {direction!r}")
    if size is not None and not (math.isfinite(size) and size >= 0):
        found.append(f"prediction.size: a number from 0 up in the metric's unit, or none; not {size!r}")
    if not 0 <= confidence <= 1:
        found.append(f"prediction.confidence: a chance from 0 to 1, not {confidence!r}")
    for name in ("hypothesis", "success", "rollback"):
        if not getattr(proposal, name).strip():
            found.append(f"{name}: empty; say it in a sentence")
    return found


def _of_change(proposal: Proposal, brief: Brief) -> list[str]:
    change = proposal.change
    if change.empty != (proposal.family is Family.CONTINUE):
        what = "changes nothing" if change.empty else "changes something"
        return [f"change: family {str(proposal.family)!r} {what}; only 'continue' has no change, and it has none"]
    changed = [*change.sets, *change.files]
    names = [*changed, *(["weights"] if change.weights else [])]
    found = [
        f"change: {name!r} may not change here. What may: {', '.join(brief.allowed)}"
        for name in changed
        if not any(fnmatchcase(name, pattern) for pattern in brief.allowed)
    ]
    if len(names) > 1:
        if not change.bundle:
            found.append(
                f"change: {len(names)} things change ({', '.join(names)}), so nobody could say which helped. Propose "
                "one, or say in change.bundle why they belong together and in change.ablation in which order they come out again"
            )
        elif set(change.ablation) != set(names):
            found.append(f"change.ablation: name each changed thing once, in the order of removal: {', '.join(names)}")
    for branch in brief.past:
        if branch.proposal is not None and branch.parent == brief.parent.name and branch.proposal.change == change:
            if proposal.family is not Family.CONTINUE:
                found.append(f"change: tried on the same parent as {branch.name} before; propose something else")
            break
    return found


def _hint(name: str, known: Sequence[str]) -> str:
    near = get_close_matches(name, known, n=1)
    return f" Did you mean {near[0]!r}?" if near else ""


# Predictions, scored


def score(prediction: Prediction, before: Diagnosis, after: Diagnosis, judgement: Judgement | None) -> bool | None:
    """Whether a prediction came true: the metric went the predicted way, by at least half of the predicted size. None where it could not
    be measured.

    The metric "truth" is the gate's paired difference; a diagnostic's is its value after less before.
    """
    if prediction.metric == TRUTH:
        moved = judgement.difference if judgement is not None else None
    else:
        values = [found.reading.value if (found := d.finding(prediction.metric)) else None for d in (before, after)]
        moved = values[1] - values[0] if values[0] is not None and values[1] is not None else None
    if moved is None or not math.isfinite(moved):
        return None
    along = moved if prediction.direction == "up" else -moved
    return along > 0 and along >= (prediction.size or 0.0) / 2


def calibration_of(scored: Sequence[tuple[float, bool]]) -> dict[str, float]:
    """Of (confidence, came true): `n`, `hit_rate`, `confidence` (mean), `brier` (mean squared error, Brier 1950; 0 is perfect, 0.25 is
    always saying one half) and `skill` (1 - brier / that of always saying the hit rate). Without predictions only `n`."""
    if not scored:
        return {"n": 0}
    n = len(scored)
    hits = math.fsum(true for _, true in scored) / n
    brier = math.fsum((confidence - true) ** 2 for confidence, true in scored) / n
    base = hits * (1 - hits)
    found = {"n": n, "hit_rate": hits, "confidence": math.fsum(c for c, _ in scored) / n, "brier": brier}
    return found | ({"skill": 1 - brier / base} if base else {})
