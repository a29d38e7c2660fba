"""What a lab's settings must be before a folder is made: settings that would only be found useless after the first branch has trained are refused here."""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Protocol

from coevo.errors import ConfigError
from coevo.gate.testing import RESAMPLES
from coevo.lab.interventions import OWN_REWARDS, SEALED, allowed, recipe_names
from coevo.lab.settings import AgentConfig, LabConfig
from coevo.stats import smallest_flip_share
from coevo.training.settings import Recipe

MOST_SAMPLES = 2_000_000
"""Rollouts of one arm that are held in memory at once (calibration and the report take all looks' samples together)."""

_FIELD = {"model": "model", "command": "command", "script": "scripted"}
"""Setting of the agent -> the kind that reads it."""


class Tasks(Protocol):
    """Names of the tasks of a split."""

    def tasks(self, split: str) -> tuple[str, ...]: ...


def require_sense(config: LabConfig, measurer: Tasks, *, notify: Callable[[str], None] = lambda line: None) -> None:
    """Raise `ConfigError` (`UsageError` for a folder of skills that is not there) where the settings contradict each other or could never promote."""
    _require_own_settings(config)
    require_sizes(config, measurer)
    require_agent(config)
    _require_allowed_names(config)
    _require_skills(config, notify)
    _require_rewards(config)


def _require_own_settings(config: LabConfig) -> None:
    """Settings of the recipe that are the lab's."""
    for name, mine in (("seed", config.seed), ("steps", config.steps)):
        value = getattr(config.recipe, name)
        if value not in (Recipe.model_fields[name].default, mine):
            raise ConfigError(
                f"recipe.{name} = {value} would change nothing: a lab gives its branches its own; set {name} (now {mine}) and leave recipe.{name} out"
            )
    if config.recipe.trainer == "toy" and (given := [name for name, value in config.tasks if value]):
        raise ConfigError(
            f"tasks.{given[0]} would change nothing: trainer toy makes its own tasks. Leave it out, or name another recipe.trainer"
        )


def require_sizes(config: LabConfig, measurer: Tasks) -> None:
    """Raise `ConfigError` where the gate could never promote anything, or a look is more than this process holds."""
    gate = config.gate
    levels = {"gate": (gate.alpha / config.branches, f"gate.alpha = {gate.alpha:g} over branches = {config.branches}")}
    if gate.holdout:
        levels["holdout"] = (gate.holdout_alpha, f"gate.holdout_alpha = {gate.holdout_alpha:g}")
    for split, (level, said) in levels.items():
        count = len(measurer.tasks(split))
        if count < gate.min_tasks:
            raise ConfigError(
                f"tasks.{split} holds {count} tasks, and with fewer than gate.min_tasks = {gate.min_tasks} nothing is ever promoted; "
                f"name more tasks, or lower gate.min_tasks"
            )
        least = smallest_flip_share(count, RESAMPLES)
        if level < least:
            raise ConfigError(
                f"{said} is under the smallest p of the gate's test on {count} tasks, 1 in {round(1 / least):,}: nothing is ever promoted; name more "
                "tasks (up to 13 each one halves it), fewer branches, or a larger level"
            )
        if count * gate.samples * gate.looks > MOST_SAMPLES:
            raise ConfigError(
                f"gate.samples = {gate.samples:,} x gate.looks = {gate.looks} on {count} tasks are {count * gate.samples * gate.looks:,} rollouts of an arm "
                f"in memory; {MOST_SAMPLES:,} are the limit"
            )


def require_agent(config: LabConfig) -> None:
    """Raise `ConfigError` where the agent's kind lacks what it needs, or something is set that its kind does not read."""
    from coevo.lab.agents.opening import open_agent
    from coevo.models.spec import parse_spec

    agent = config.agent
    for name, kind in _FIELD.items():
        if getattr(agent, name) and agent.kind != kind:
            raise ConfigError(
                f"agent.{name} is set, and agent.kind = {agent.kind!r} does not read it; set agent.kind={kind}, or leave it out"
            )
    if agent.kind == "model" and agent.model:
        parse_spec(agent.model)  # Opening it may load weights; that is for the run.
        return
    open_agent(agent, seed=0, blind=config.placebo)


def _require_allowed_names(config: LabConfig) -> None:
    """Patterns of `allowed` must meet something that exists and is not sealed."""
    names = [*recipe_names(), f"{OWN_REWARDS}x.py", "reward.parts.x", "states.mix.x"]
    for pattern, what in config.allowed.items():
        met = [name for name in names if fnmatchcase(name, pattern)]
        if not met and not pattern.startswith(OWN_REWARDS):
            raise ConfigError(
                f"allowed: {pattern!r} meets no setting of a recipe and no file of a harness (rewards/*.py); `coevo config train` lists the settings"
            )
        if what and all(any(fnmatchcase(name, seal) for seal in SEALED) for name in met) and met:
            raise ConfigError(
                f"allowed: {pattern!r} is sealed (judge, budget, seeds or machine), whatever a lab allows; leave it out"
            )
    if not allowed(config):
        raise ConfigError("allowed takes everything away: no proposal could change anything; leave something in")


def _require_skills(config: LabConfig, notify: Callable[[str], None]) -> None:
    from coevo.skills.store import open_shelf

    if "" in config.skills:
        raise ConfigError("skills holds an empty name; name folders of skills, as in skills: [./skills]")
    shelf = open_shelf(config.skills, library=False)
    for place, wrong in shelf.broken.items():
        notify(f"skill {place} will not be used: {wrong[0]}")
    if config.skills and not shelf.skills and not shelf.broken:
        notify(f"no skill was found in {', '.join(config.skills)}: no folder there holds a SKILL.md")


def _require_rewards(config: LabConfig) -> None:
    """Reward functions of the first recipe load; they run here as they will in training."""
    from coevo.training.own import is_own
    from coevo.training.rewards import reward_of

    if any(is_own(name) for name in config.recipe.reward.parts):
        with reward_of(config.recipe.reward):
            pass


def absolute_agent(agent: AgentConfig) -> AgentConfig:
    """With its script named so that it means the same from anywhere."""
    return agent.model_copy(update={"script": str(Path(agent.script).absolute())}) if agent.script else agent
