"""Which skills apply to a diagnosis, the most promising first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from coevo.skills.running import Diagnosed, Scripts, scripts_or_own
from coevo.skills.states import offered, state_of
from coevo.skills.types import Origin, Skill, SkillState, Trigger, Use

_RANK = {SkillState.TRUSTED: 0, SkillState.VALIDATED: 1}


class Found(NamedTuple):
    """A skill that fires, and what is believed of it."""

    skill: Skill
    trigger: Trigger
    state: SkillState


def retrieve(
    diagnosis: Diagnosed,
    skills: Iterable[Skill],
    uses: Sequence[Use],
    context: str,
    *,
    scripts: Scripts | None = None,
    tombstones: Mapping[str, str] | None = None,
    any_domain: bool = False,
) -> list[Found]:
    """The skills that fire on a diagnosis: trusted first, then by the posterior chance that they help, then by name.

    Demoted ones, candidates (their cases do not hold, or could not be run) and those not offered in `context` are never among them.
    `tombstones` are reasons by digest (`Shelf.tombstones`).
    """
    found: list[tuple[tuple[int, float, str], Found]] = []
    with scripts_or_own(scripts) as runner:
        asked: list[tuple[Skill, list[Use]]] = []
        for skill in skills:
            own = [use for use in uses if use.skill == skill.name]
            grave = (tombstones or {}).get(skill.digest, "")
            if state_of(own, cases_hold=True, tombstone=grave).state is SkillState.DEMOTED:
                continue
            if offered(skill, context, own, any_domain=any_domain)[0]:
                asked.append((skill, own))
        triggers = runner.triggers([skill for skill, _ in asked], diagnosis)
        for (skill, own), trigger in zip(asked, triggers, strict=True):
            if not trigger.fires:
                continue
            origin = Origin.SHIPPED if runner.is_own(skill) else Origin.IMPORTED
            standing = state_of(own, cases_hold=runner.cases_hold(skill), origin=origin)
            if standing.state in _RANK:
                key = (_RANK[standing.state], -standing.record.chance, skill.name)
                found.append((key, Found(skill, trigger, standing.state)))
    return [entry for _, entry in sorted(found, key=lambda pair: pair[0])]
