"""A rule over diagnostics, on recorded branches: when would it have spoken, and on which good ones?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from coevo.backtest.separation import Separation, separation
from coevo.backtest.types import Known, Past
from coevo.diagnostics.diagnose import diagnose
from coevo.diagnostics.registry import shipped
from coevo.diagnostics.types import Diagnostic, Rule
from coevo.errors import UsageError

LOOKS = 12
"""Moments of a branch at which the rule is asked."""


class Course(NamedTuple):
    """What a rule said while a branch was trained."""

    branch: str
    known: Known
    looks: tuple[float, ...]
    """Steps at which it was asked: what a diagnosis then would have seen are all rollouts up to that step."""
    fired: tuple[bool, ...]

    @property
    def first(self) -> float | None:
        """Step of the first look at which it fired."""
        return next((step for step, fired in zip(self.looks, self.fired, strict=True) if fired), None)

    @property
    def share_left(self) -> float | None:
        """Share of the looks that were still to come: 1 for the earliest."""
        at = next((i for i, fired in enumerate(self.fired) if fired), None)
        return None if at is None else 1 - at / max(1, len(self.looks))

    def to_dict(self) -> dict[str, Any]:
        return {
            "branch": self.branch,
            "known": str(self.known),
            "looks": list(self.looks),
            "fired": list(self.fired),
            "first": self.first,
            "share_left": self.share_left,
        }


@dataclass(frozen=True)
class RuleBacktest:
    """When a rule would have fired."""

    rule: str
    courses: tuple[Course, ...]
    hits: tuple[str, ...]
    """Bad branches on which it fired."""
    false_alarms: tuple[str, ...]
    """Good ones."""
    separation: Separation
    """Of having fired at all."""
    unknown: Mapping[str, int]
    """Cited diagnostics that said nothing at the last look -> on how many branches."""

    @property
    def prediction(self) -> float | None:
        """The number that is held against what came of it: AUC of having fired."""
        return self.separation.auc

    def to_dict(self) -> dict[str, Any]:
        return {
            "kind": "rule",
            "rule": self.rule,
            "courses": [course.to_dict() for course in self.courses],
            "hits": list(self.hits),
            "false_alarms": list(self.false_alarms),
            **self.separation._asdict(),
            "unknown": dict(self.unknown),
            "prediction": self.prediction,
        }


def backtest_rule(
    rule: Rule,
    branches: Sequence[Past],
    *,
    diagnostics: Mapping[str, Diagnostic] | None = None,
    looks: int = LOOKS,
    seed: int = 0,
) -> RuleBacktest:
    """Ask a rule of each branch at `looks` evenly spaced steps, every time with all rollouts up to there. Branches without steps are asked once.

    `diagnostics`: by id, the shipped ones by default. Raises `UsageError` where the rule cites one that is not among them.
    """
    if looks < 1:
        raise UsageError(f"a rule must be asked at least once, not {looks} times")
    known = shipped() if diagnostics is None else diagnostics
    if missing := [id for id in rule.cites if id not in known]:
        raise UsageError(
            f"rule {rule.id!r} cites diagnostics that are not here: {', '.join(missing)}. Known: {', '.join(sorted(known))}"
        )
    cited = {id: known[id] for id in rule.cites}
    courses, unknown = [], dict.fromkeys(rule.cites, 0)
    for branch in branches:
        course, silent = _course(rule, branch, cited, looks)
        courses.append(course)
        for id in silent:
            unknown[id] += 1
    told = [c for c in courses if c.known is not Known.UNKNOWN]
    return RuleBacktest(
        rule=rule.id,
        courses=tuple(courses),
        hits=tuple(c.branch for c in courses if c.known is Known.BAD and any(c.fired)),
        false_alarms=tuple(c.branch for c in courses if c.known is Known.GOOD and any(c.fired)),
        separation=separation([float(any(c.fired)) for c in told], [c.known is Known.BAD for c in told], seed=seed),
        unknown={id: count for id, count in unknown.items() if count},
    )


def _course(rule: Rule, branch: Past, cited: Mapping[str, Diagnostic], looks: int) -> tuple[Course, tuple[str, ...]]:
    steps = branch.frame.numbers("step")
    known = np.unique(steps[np.isfinite(steps)])
    if len(known):
        places = np.unique(np.linspace(0, len(known), min(looks, len(known)) + 1)[1:].round().astype(int) - 1)
        moments = known[places]
    else:
        moments = np.array([np.inf])
    fired, silent = [], ()
    for moment in moments:
        frame = branch.frame.where(~(steps > moment))
        said = diagnose(frame, branch.baseline, diagnostics=cited, rules=(rule,))
        fired.append(bool(said.fired))
        silent = tuple(id for id in rule.cites if id in said.unknown)
    shown = tuple(float(m) for m in moments) if len(known) else (0.0,)
    return Course(branch.name, branch.known, shown, tuple(fired)), silent
