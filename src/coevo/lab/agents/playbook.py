"""The default agent: moves and skills that answer what the diagnosis found, weighed by what came of them before. Needs no model.

For every move that would change something: *match*, how loudly the diagnosis asks for it (`_match`: critical 2, warn 1, times what the layer counts; plus
1, 1/2, 1/3 ... for its family's place in a fired rule's suggestions), times a draw from the Beta posterior of its success in this lab (Thompson 1933). Moves
that nobody asked for keep a small chance, so that a diagnosis that sees nothing does not end the search. What was tried on the same parent, or
was ever invalid, is not proposed again. A change that failed is tried again together with what its own rollouts ask for (`_repairs`). Where the diagnosis says that the parent's policy is spoilt, a change is proposed together with a
return to the base weights, as a bundle.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import NamedTuple

from coevo.config import assigned
from coevo.diagnostics.types import Diagnosis, Layer, Level
from coevo.errors import CoevoError
from coevo.gate.types import Verdict
from coevo.lab.agents.moves import Move, Sets, moves_for
from coevo.lab.proposals import TRUTH
from coevo.lab.types import Branch, Brief, Change, DiagnosticProposal, Family, Prediction, Proposal
from coevo.streams import stream

UNASKED = 0.2
"""Match of a move that no finding speaks for."""
FALLS = -2.0
"""Value of `learning` (standard errors) under which ability is taken to fall."""
REPAIRED = 3
"""Settings that a repair may change at most."""
SKILL = 3.0
"""Match of a skill that fires; of the k-th, over k."""
_LOUD = {Level.CRITICAL: 2.0, Level.WARN: 1.0}
_LAYER = {Layer.MEASUREMENT: 2.0, Layer.SCORE: 2.0, Layer.SIGNAL: 1.0, Layer.POLICY: 0.7, Layer.BEHAVIOUR: 0.5}
"""What is paid without being true comes before the symptoms that it brings: collapse, sameness, length."""


_SPOILT = (
    "learning",
    "reward-truth-gap",
    "entropy-collapse",
    "reward-collapse",
    "template-collapse",
    "solution-diversity",
)


class _Idea(NamedTuple):
    name: str
    family: Family
    sets: Sets
    why: str
    match: float
    cites: tuple[str, ...]
    skill: str = ""


@dataclass
class Playbook:
    """Deterministic by seed and brief."""

    seed: int
    blind: bool = False
    """Draw from what is allowed whatever the diagnosis says: the placebo."""
    name: str = "playbook"

    def propose(self, brief: Brief) -> Sequence[Proposal]:
        ideas = [i for i in _ideas(brief, blind=self.blind) if _may(brief, i) and not _tried(brief, i)]
        rng = stream(self.seed, "playbook", brief.round, len(brief.returned))
        ranked = []
        for idea in ideas:
            wins, losses = _record(brief.past, idea)
            match = 1.0 if self.blind else idea.match
            ranked.append((match * rng.betavariate(1 + wins, 1 + losses), idea))
        ranked.sort(key=lambda pair: -pair[0])
        chosen: list[_Idea] = []
        for _, idea in ranked:
            if len(chosen) < brief.wanted and all(set(idea.sets) != set(other.sets) for other in chosen):
                chosen.append(idea)
        return [self._proposal(brief, idea) for idea in chosen]

    def propose_diagnostic(self, brief: Brief, gap: str) -> DiagnosticProposal | None:
        """The best of the terms that the lab screened."""
        for term in brief.terms:
            text = str(term["term"])
            name = "term-" + "".join(c if c.isalnum() else "-" for c in text.lower()).strip("-")[:48].rstrip("-")
            if brief.diagnosis.finding(name) is None:
                return DiagnosticProposal(
                    id=name,
                    title=text,
                    formula=text,
                    means="branches that turned out bad had high values of it"
                    if term["critical"] >= term["warn"]
                    else "branches that turned out bad had low values of it",
                    warn=float(term["warn"]),
                    critical=float(term["critical"]),
                    term=text,
                    why=gap,
                )
        return None

    def spent(self) -> Mapping[str, float]:
        return {}

    def _proposal(self, brief: Brief, idea: _Idea) -> Proposal:
        wins, losses = _record(brief.past, idea)
        change = Change(sets=idea.sets)
        if len(idea.sets) > 1:
            change = Change(
                sets=idea.sets, bundle="each of them alone was held back by another", ablation=tuple(idea.sets)
            )
        if not self.blind and (spoilt := spoilt_by(brief)):
            change = Change(
                sets=idea.sets,
                weights={"from": "base"},
                bundle=f"the parent's policy is spoilt ({', '.join(spoilt)}): under whatever recipe, it would have to be unlearned first",
                ablation=(*idea.sets, "weights"),
            )
        chance = (1 + wins + idea.match / 4) / (3 + wins + losses + idea.match / 4)
        return Proposal(
            family=idea.family,
            hypothesis=f"{idea.why[0].upper()}{idea.why[1:]}.",
            evidence=idea.cites or (brief.parent.name,),
            change=change,
            prediction=_prediction(brief.diagnosis, idea, min(0.9, chance)),
            success="the gate promotes the branch, and it gains more than the control",
            rollback="the parent's recipe and weights stay; nothing else is touched",
            wrong_if="truth does not rise against the control, or the diagnostics cited do not move",
            skill=idea.skill,
        )


def _ideas(brief: Brief, *, blind: bool) -> Iterable[_Idea]:
    """Moves and skills; where both say the same, it is the skill's idea, asked for twice."""
    loud = _loud(brief.diagnosis)
    found: dict[str, _Idea] = {}
    for move, sets in moves_for(brief.recipe):
        asked = [name for name in move.answers if name in loud]
        rules = {
            r.rule: 1 / (1 + r.suggests.index(move.family)) for r in brief.diagnosis.fired if move.family in r.suggests
        }
        match = _match(loud, asked) + (max(rules.values()) if asked and rules else 0.0)
        cites = (*_ids(asked), *(rules if asked else ()))
        found[_key(sets)] = _Idea(move.name, move.family, sets, move.why, match or UNASKED, cites)
    for idea in () if blind else (*_of_skills(brief), *_repairs(brief)):
        same = found.get(_key(idea.sets))
        if same is not None:
            idea = idea._replace(match=idea.match + same.match, cites=(*idea.cites, *same.cites), family=same.family)
        found[_key(idea.sets)] = idea
    return found.values()


def _loud(diagnosis: Diagnosis) -> dict[str, float]:
    """How much each finding that speaks asks for; `learning` under two names, since what stands still and what falls ask for opposite things."""
    found = {f.diagnostic: _LOUD[f.level] * _LAYER[f.layer] for f in diagnosis.findings if f.level in _LOUD}
    if (learning := diagnosis.finding("learning")) is not None and "learning" in found:
        falls = learning.reading.value is not None and learning.reading.value < FALLS
        found["learning:worse" if falls else "learning:flat"] = found["learning"]
    return found


def _match(loud: Mapping[str, float], asked: Sequence[str]) -> float:
    """The loudest of the findings that a move answers; the others, which often say the same, a quarter each."""
    values = sorted((loud[name] for name in asked), reverse=True)
    return values[0] + 0.25 * math.fsum(values[1:]) if values else 0.0


def _ids(asked: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.partition(":")[0] for name in asked))


def _key(sets: Sets) -> str:
    return json.dumps(dict(sets), sort_keys=True, default=str)


def _of_skills(brief: Brief) -> Iterable[_Idea]:
    from coevo.skills.running import patch_of

    for place, skill in enumerate(brief.skills, 1):
        try:
            patch = patch_of(skill, brief.recipe, brief.diagnosis)
        except CoevoError:
            continue  # A skill whose script fails proposes nothing; `coevo skills test` says what is wrong with it.
        if patch.sets:
            why = patch.why or skill.description
            yield _Idea(skill.name, _family(patch.sets), patch.sets, why, SKILL / place, (skill.name,), skill.name)


def _repairs(brief: Brief) -> Iterable[_Idea]:
    """A change that failed on this parent, together with what its own rollouts ask for: two faults may hide each other."""
    for branch in brief.past:
        judgement, proposal = branch.judgement, branch.proposal
        if judgement is None or proposal is None or branch.diagnosis is None or branch.parent != brief.parent.name:
            continue
        first = dict(proposal.change.sets)
        if not first or len(first) >= REPAIRED or judgement.verdict in (Verdict.PROMOTED, Verdict.UNMEASURED):
            continue
        loud = _loud(branch.diagnosis)
        for move, sets in moves_for(assigned(dict(brief.recipe), first)):
            asked = [name for name in move.answers if name in loud]
            if asked and not set(sets) & set(first):
                match = _match(loud, asked) - 0.5 * len(first)
                why = f"{branch.name} failed for another reason than its own: {move.why}"
                yield _Idea(
                    f"{branch.name}+{move.name}", move.family, {**first, **sets}, why, match, (branch.name, *asked)
                )


def _family(sets: Sets) -> Family:
    """Of a patch, by the first part of the setting's name."""
    first = next(iter(sets)).split(".")
    known = {
        "reward": Family.REWARD,
        "advantage": Family.REWARD,
        "filter": Family.FILTER,
        "states": Family.DATA,
        "episode": Family.EPISODE,
        "toy": Family.DATA if first[-1] == "leak" else Family.REWARD,
    }
    return known.get(first[0], Family.HYPERPARAMETER)


def spoilt_by(brief: Brief) -> tuple[str, ...]:
    """What says that training has made the policy worse than it was, or has left nothing to explore with: a change does better
    from the base weights than from there."""
    measured = (f"{brief.base.told()}",) if brief.base is not None and brief.base.spoilt else ()
    found = brief.diagnosis.findings
    return (*measured, *(f.diagnostic for f in found if f.diagnostic in _SPOILT and f.level is Level.CRITICAL))


def _may(brief: Brief, idea: _Idea) -> bool:
    return all(any(fnmatchcase(name, pattern) for pattern in brief.allowed) for name in idea.sets)


def _tried(brief: Brief, idea: _Idea) -> bool:
    for branch in brief.past:
        if branch.proposal is None or dict(branch.proposal.change.sets) != dict(idea.sets):
            continue
        invalid = branch.judgement is not None and branch.judgement.verdict is Verdict.INVALID
        if invalid or branch.parent == brief.parent.name:
            return True
    return False


def _record(past: Sequence[Branch], idea: _Idea) -> tuple[float, float]:
    """(successes, failures) of changes to the same settings, those of the same family counted a quarter; what was not measured counts nothing."""
    wins = losses = 0.0
    for branch in past:
        if branch.proposal is None or branch.judgement is None or branch.proposal.family is not idea.family:
            continue
        weight = 1.0 if set(branch.proposal.change.sets) == set(idea.sets) else 0.25
        verdict = branch.judgement.verdict
        if verdict is Verdict.PROMOTED:
            wins += weight
        elif verdict in (Verdict.REJECTED, Verdict.INVALID):
            losses += weight
        elif verdict is Verdict.INCONCLUSIVE:
            losses += weight / 2
    return wins, losses


def _prediction(diagnosis: Diagnosis, idea: _Idea, chance: float) -> Prediction:
    """The loudest diagnostic it answers gets better; else truth rises."""
    from coevo.diagnostics.registry import shipped

    known = shipped()
    for level in (Level.CRITICAL, Level.WARN):
        for name in idea.cites:
            found = diagnosis.finding(name)
            if found is not None and found.level is level and name in known:
                better = "down" if known[name].levels.critical >= known[name].levels.warn else "up"
                return Prediction(name, better, confidence=chance)
    return Prediction(TRUTH, "up", confidence=chance)


__all__ = ["Move", "Playbook"]
