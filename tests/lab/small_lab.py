"""Small labs for tests: trainer toy, few steps, a few seconds."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from coevo.config import parse
from coevo.lab.settings import LabConfig
from coevo.lab.types import Brief, Change, DiagnosticProposal, Family, Prediction, Proposal

SMALL: dict[str, Any] = {
    "name": "small",
    "recipe": {"trainer": "toy", "groups": 4, "group_size": 4, "lr": 1e-5, "toy": {"noise": 0.01}},
    "steps": 6,
    "branches": 1,
    "calibration": 10,
    "gate": {"samples": 2, "looks": 2},
    "budget": {"rounds": 1},
}


def config(**changes: Any) -> LabConfig:
    """The small lab's settings; a mapping is merged into what is there."""
    data = json.loads(json.dumps(SMALL))
    for name, value in changes.items():
        data[name] = {**data[name], **value} if isinstance(value, Mapping) and name in data else value
    return parse(LabConfig, data, where="test lab")


def proposal(sets: Mapping[str, Any] | None = None, **changes: Any) -> Proposal:
    """A proposal that lacks nothing."""
    fields: dict[str, Any] = {
        "family": Family.HYPERPARAMETER,
        "hypothesis": "A larger rate learns more in as many steps.",
        "evidence": ("b0",),
        "change": Change(sets=dict(sets or {"lr": 3e-5})),
        "prediction": Prediction("truth", "up", confidence=0.7),
        "success": "truth rises against the control",
        "rollback": "the parent stays",
    }
    return Proposal(**{**fields, **changes})


@dataclass
class Plan:
    """An agent with a list of proposals per round; what it was told is kept."""

    rounds: Sequence[Sequence[Proposal]]
    diagnostic: DiagnosticProposal | None = None
    name: str = "plan"
    briefs: list[Brief] = field(default_factory=list)

    def propose(self, brief: Brief) -> Sequence[Proposal]:
        self.briefs.append(brief)
        if brief.returned:
            return []
        return self.rounds[brief.round - 1] if brief.round <= len(self.rounds) else []

    def propose_diagnostic(self, brief: Brief, gap: str) -> DiagnosticProposal | None:
        self.briefs.append(brief)
        return self.diagnostic

    def spent(self) -> Mapping[str, float]:
        return {"tokens": 10, "usd": 0.0}


def kinds(path: Path) -> list[str]:
    """Kinds of a lab's events, in order, without those of the store."""
    from coevo.runs import Run

    with Run.open(path, write=False) as run:
        return [event.kind for event in run.events() if not event.kind.startswith("run.") and event.kind != "rollouts"]


def digest(path: Path) -> str:
    from coevo.runs import Run

    with Run.open(path, write=False) as run:
        return run.digest()
