"""From settings to an agent."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from coevo.errors import ConfigError
from coevo.lab.settings import AgentConfig
from coevo.lab.types import Agent


def open_agent(config: AgentConfig, *, seed: int, blind: bool = False, hidden: Sequence[Path] = ()) -> Agent:
    """The agent that `config` names. `blind`: the placebo, which draws from what is allowed whatever the diagnosis. `hidden`: folders that a
    command must not see (the lab's run, the tasks).

    Raises `ConfigError` where the kind lacks its setting, and whatever opening a model raises.
    """
    if blind or config.kind == "playbook":
        from coevo.lab.agents.playbook import Playbook

        return Playbook(seed, blind=blind, name="placebo" if blind else "playbook")
    if config.kind == "scripted":
        if not config.script:
            raise ConfigError("agent.kind = 'scripted' needs agent.script: a JSONL file of proposals")
        from coevo.lab.agents.scripted import Scripted

        return Scripted(Path(config.script))
    if config.kind == "model":
        if not config.model:
            raise ConfigError("agent.kind = 'model' needs agent.model, as in openai:NAME@URL")
        from coevo.lab.agents.model import ModelAgent

        return ModelAgent.open(config.model, seed=seed)
    if not config.command:
        raise ConfigError(
            "agent.kind = 'command' needs agent.command: what to run; it gets the brief's path as its last argument"
        )
    from coevo.lab.agents.command import CommandAgent

    return CommandAgent(config, hidden=hidden)
