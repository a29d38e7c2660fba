"""Skills: interventions with a trigger, a change and a check, in the Agent Skills format, believed as far as their uses say."""

from coevo.skills.types import Failure, Outcome, Patch, Skill, SkillState, Trigger, Use, Verification

__all__ = ["Failure", "Outcome", "Patch", "Skill", "SkillState", "Trigger", "Use", "Verification"]
