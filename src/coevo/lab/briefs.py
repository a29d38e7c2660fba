"""A brief as data (stored, given to `command` agents) and as text (given to models): all an agent is told, in a bounded number of words."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from coevo.diagnostics.types import Level
from coevo.lab.proposals import proposal_dict
from coevo.lab.types import Branch, Brief

TEXT_CHARS = 800
"""Of a prompt or a response in an excerpt: its beginning and its end."""
FILE_CHARS = 6000
"""Of a harness file in the text; the data has all of it."""
PAST = 30
"""Branches told in full; older ones are counted."""


def brief_dict(brief: Brief) -> dict[str, Any]:
    """Plain data of the whole brief."""
    return {
        "schema": 1,
        "goal": brief.goal,
        "round": brief.round,
        "parent": branch_summary(brief.parent),
        "recipe": dict(brief.recipe),
        "diagnosis": brief.diagnosis.to_dict(),
        "excerpts": [_shortened(row) for row in brief.excerpts],
        "past": [branch_summary(branch) for branch in brief.past],
        "skills": [{"name": s.name, "description": s.description} for s in brief.skills],
        "calibration": None if brief.calibration is None else _calibration(brief),
        "base": None if brief.base is None else brief.base.to_dict(),
        "remaining": dict(brief.remaining),
        "allowed": dict(brief.allowed),
        "wanted": brief.wanted,
        "files": dict(brief.files),
        "escalation": brief.escalation,
        "returned": list(brief.returned),
        "terms": [dict(term) for term in brief.terms],
    }


def branch_summary(branch: Branch) -> dict[str, Any]:
    """What was tried, and what came of it."""
    judgement = branch.judgement
    found: dict[str, Any] = {
        "name": branch.name,
        "parent": branch.parent,
        "round": branch.round,
        "state": str(branch.state),
        "proposal": None if branch.proposal is None else proposal_dict(branch.proposal),
        "verdict": None if judgement is None else str(judgement.verdict),
        "reasons": [] if judgement is None else list(judgement.reasons),
    }
    if judgement is not None and judgement.difference is not None:
        found |= {"difference": judgement.difference, "low": judgement.low, "high": judgement.high}
    return found


def brief_text(brief: Brief) -> str:
    """The brief for a reader: Markdown, worst findings first."""
    lines = [f"# Round {brief.round}", "", f"Goal: {brief.goal}", ""]
    if brief.escalation:
        lines += ["## Three rounds failed", "", brief.escalation, ""]
    if brief.returned:
        lines += ["## Came back", "", *(f"- {why}" for why in brief.returned), ""]
    lines += ["## Diagnosis of the parent", "", *_diagnosis(brief), ""]
    if brief.excerpts:
        lines += ["## Rollouts behind it", ""]
        for row in brief.excerpts:
            lines += ["```json", json.dumps(_shortened(row), ensure_ascii=True, default=str), "```"]
        lines.append("")
    lines += ["## Tried so far", "", *_past(brief), ""]
    if brief.skills:
        lines += ["## Skills that fire", "", *(f"- `{s.name}`: {s.description}" for s in brief.skills), ""]
    if brief.terms:
        lines += ["## Terms that separated past branches", ""]
        lines += [f"- `{term.get('term')}`: {_plain(term)}" for term in brief.terms] + [""]
    lines += ["## The parent's recipe", "", "```json", json.dumps(brief.recipe, ensure_ascii=True), "```", ""]
    lines += ["## What may change", "", *(f"- `{name}`: {what}" for name, what in brief.allowed.items()), ""]
    for name, text in brief.files.items():
        lines += [f"### `{name}`", "", "```", _cut(text, FILE_CHARS), "```", ""]
    if brief.calibration is not None:
        lines += [f"The gate sees gains from {brief.calibration.detectable:.3f} of truth up.", ""]
    if brief.base is not None:
        lines += [f"The parent on the gate's tasks: {brief.base.told()}.", ""]
    left = ", ".join(f"{name} {amount:g}" for name, amount in brief.remaining.items() if amount is not None)
    lines.append(f"Budget left: {left or 'unlimited'}. Proposals wanted: at most {brief.wanted}.")
    return "\n".join(lines)


def _diagnosis(brief: Brief) -> list[str]:
    order = {Level.CRITICAL: 0, Level.WARN: 1, Level.OK: 2, Level.UNKNOWN: 3}
    lines = []
    for f in sorted(brief.diagnosis.findings, key=lambda f: order[f.level]):
        value = "" if f.reading.value is None else f" = {f.reading.value:.4g}"
        lines.append(f"- {f.level}: `{f.diagnostic}`{value}. {f.reading.note}")
    lines += [f"- rule `{r.rule}` ({', '.join(r.cites)}): {r.says}" for r in brief.diagnosis.fired]
    lines += [f"- unknown: `{name}`: {why}" for name, why in brief.diagnosis.unknown.items()]
    return lines or ["- nothing is known of it yet"]


def _past(brief: Brief) -> list[str]:
    lines = [f"- {len(brief.past) - PAST} older branches are left out"] if len(brief.past) > PAST else []
    for branch in brief.past[-PAST:]:
        told = branch_summary(branch)
        change = told["proposal"]["change"] if told["proposal"] else {}
        what = {name: value for name, value in change.items() if value}
        moved = (
            f", difference {told['difference']:+.4f} ({told['low']}, {told['high']})" if "difference" in told else ""
        )
        why = f": {'; '.join(told['reasons'][:2])}" if told["reasons"] else ""
        lines.append(
            f"- `{branch.name}` of `{branch.parent}`: {json.dumps(what, ensure_ascii=True)} -> {told['verdict'] or told['state']}{moved}{why}"
        )
    return lines or ["- nothing"]


def _shortened(row: Mapping[str, Any]) -> dict[str, Any]:
    return {name: _cut(value) if isinstance(value, str) else value for name, value in row.items()}


def _cut(text: str, most: int = TEXT_CHARS) -> str:
    if len(text) <= most:
        return text
    half = most // 2
    return f"{text[:half]} [... {len(text) - 2 * half} characters ...] {text[-half:]}"


def _plain(term: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in term.items() if name != "term")


def _calibration(brief: Brief) -> dict[str, Any]:
    assert brief.calibration is not None
    found = dict(vars(brief.calibration))
    found["power_at"] = {f"{gain:g}": power for gain, power in brief.calibration.power_at.items()}
    return found
