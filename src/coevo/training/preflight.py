"""What a run will cost, and what cannot work, found out before anything is written."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from coevo.engines.types import Engine
from coevo.episodes.prompting import Openings
from coevo.episodes.types import StartState
from coevo.errors import ConfigError
from coevo.tasks.types import Task
from coevo.training.settings import Recipe

LOOKED_AT = 64
"""States whose prompts are made to see whether they fit."""
_ADAM = 12
"""Bytes per trained weight for its gradient and both moments, in float32."""


@dataclass(frozen=True)
class Plan:
    """A step in numbers."""

    rollouts: int
    """Per step, without replacements."""
    prompt_tokens: int
    """Of the longest prompt looked at."""
    reply_tokens: int
    """Of one rollout at most."""
    evaluations: int
    """Programs judged per step at most, hidden tests counted, without replacements."""
    memory_mb: float | None
    """Weights, gradients, optimizer; None where the engine does not tell its size."""
    logits_mb: float | None
    """Of one forward and backward pass at most: tokens x vocabulary, where it is known."""
    unfit: int = 0
    """Of the states looked at, those whose prompt does not fit."""
    looked_at: int = 0
    """States whose prompts were made."""

    def lines(self) -> list[str]:
        """For a person."""
        tokens = f"prompts of up to {self.prompt_tokens} tokens, replies of up to {self.reply_tokens}"
        found = [f"a step: {self.rollouts} rollouts, {tokens}; {self.evaluations} evaluations at most"]
        if self.memory_mb is not None:
            more = f", one pass up to {self.logits_mb:,.0f} MB of logits" if self.logits_mb is not None else ""
            found.append(f"memory: weights and optimizer {self.memory_mb:,.0f} MB{more}")
        if self.unfit:
            found.append(
                f"{self.unfit} of {self.looked_at} states looked at do not fit the context; their rollouts are masked"
            )
        return found


def preflight(
    recipe: Recipe, engine: Engine, states: Sequence[StartState], tasks: Mapping[str, Task], *, base: str
) -> Plan:
    """Raises `ConfigError` for what the engine cannot do, and for prompts and replies that do not fit its context."""
    _require_abilities(recipe, engine)
    episode = recipe.episode
    turns = episode.rounds if episode.name == "refine" else 1
    context = engine.capabilities.max_tokens
    if context is not None and episode.max_tokens >= context:
        raise ConfigError(
            f"episode.max_tokens = {episode.max_tokens} leaves no room for a prompt: the model's context is {context} tokens; set it to "
            f"{context // 2} or less"
        )
    openings = Openings(engine, tasks, episode)
    looked = [openings.of(state) for state in _some(states)]
    unfit = [one for one in looked if one.unfit]
    if looked and len(unfit) == len(looked):
        raise ConfigError(
            f"not one of {len(looked)} start states fits: {unfit[0].unfit}. Lower episode.max_tokens, or take a base with a longer context"
        )
    longest = max((len(one.ids) for one in looked), default=0)
    reply = turns * episode.max_tokens
    if context is not None:
        reply = min(reply, context - longest)
    weights, trained, vocabulary = _sizes(engine, base)
    memory = (4 * weights + _ADAM * trained) / 1e6 if weights else None
    tokens = min(recipe.engine.micro_tokens, recipe.groups * recipe.group_size * (longest + reply))
    logits = 2 * 4 * tokens * vocabulary / 1e6 if vocabulary else None
    _require_memory(_ADAM * trained / 1e6, engine)
    rollouts = recipe.groups * recipe.group_size
    splits = 1 + (episode.truth > 0)
    return Plan(rollouts, longest, reply, rollouts * turns * splits, memory, logits, len(unfit), len(looked))


def with_fitting_replies(recipe: Recipe, engine: Engine) -> Recipe:
    """The recipe with replies of at most half of the engine's context, unless it says itself how long they may be."""
    context, episode = engine.capabilities.max_tokens, recipe.episode
    if context is None or "max_tokens" in episode.model_fields_set or 2 * episode.max_tokens <= context:
        return recipe
    return recipe.model_copy(update={"episode": episode.model_copy(update={"max_tokens": max(1, context // 2)})})


def _require_abilities(recipe: Recipe, engine: Engine) -> None:
    can = engine.capabilities
    if recipe.loss.name not in can.losses:
        raise ConfigError(
            f"engine {can.engine!r} has no loss {recipe.loss.name!r}; it has {', '.join(sorted(can.losses))}"
        )
    if recipe.loss.kl > 0 and not can.kl:
        raise ConfigError(
            f"loss.kl = {recipe.loss.kl:g}, but engine {can.engine!r} has no KL term; set it to 0, or use max_kl"
        )
    if (recipe.entropy.floor or recipe.loss.entropy) and not can.entropy:
        raise ConfigError(
            f"engine {can.engine!r} reports no entropy and has no bonus; unset entropy.floor and loss.entropy"
        )
    if recipe.max_kl is not None and not (can.kl or can.logprobs):
        raise ConfigError(f"engine {can.engine!r} cannot measure a divergence, so max_kl cannot be kept; unset it")
    if recipe.engine.lora is not None and not can.lora:
        raise ConfigError(f"engine {can.engine!r} has no LoRA; unset engine.lora")


def _some(states: Sequence[StartState]) -> list[StartState]:
    """Up to `LOOKED_AT`, evenly."""
    count = min(LOOKED_AT, len(states))
    return [states[i * len(states) // count] for i in range(count)]


def _sizes(engine: Engine, base: str) -> tuple[int, int, int]:
    """Weights, trained weights, vocabulary; 0 where not told."""
    details = engine.capabilities.details
    try:
        config: dict[str, Any] = json.loads((Path(base) / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        config = {}
    vocabulary = config.get("vocab_size", 0)
    numbers = [int(details.get(name, "0").replace(",", "") or 0) for name in ("weights", "trained")]
    return numbers[0], numbers[1], vocabulary if isinstance(vocabulary, int) else 0


def _require_memory(more_mb: float, engine: Engine) -> None:
    """What training needs beyond the weights, which are loaded already."""
    if engine.capabilities.details.get("device", "cpu") != "cpu":
        return
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        free = next(int(line.split()[1]) / 1e3 for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration, ValueError, IndexError):
        return
    if more_mb > free:
        raise ConfigError(
            f"gradients and optimizer need {more_mb:,.0f} MB and {free:,.0f} MB are free; use engine.lora, or a smaller base"
        )
