"""What a search may cost at most, computed before anything is spent."""

from __future__ import annotations

from collections.abc import Mapping

from coevo.evolve.prompt import TaskView, worst_case_chars
from coevo.evolve.settings import MODEL_EDITS, SearchConfig
from coevo.evolve.strategies import STRATEGIES, default_weights
from coevo.evolve.types import Edit
from coevo.models.budgeting import Plan, plan
from coevo.models.ensemble import Ensemble
from coevo.tasks.types import Task

GROWTH = 2
"""Programs are assumed to grow to at most this many times the start; longer prompts are cut to the model's context."""

CHARS_PER_TOKEN = 2.0
"""Of a worst-case prompt: code is denser than prose."""


def plans(task: Task, config: SearchConfig, models: Ensemble, budget: Mapping[str, float | None]) -> dict[str, Plan]:
    """Per model: the worst case of one proposal, and how many such proposals `budget` buys at least. Free operators cost
    no tokens, so a search that uses them makes more.

    Raises `ConfigError` when prices are missing under a budget in dollars, when a reply leaves no room for a prompt in the model's context, or
    when the budget does not buy one proposal.
    """
    weights = (
        config.proposers if config.proposers is not None else default_weights(STRATEGIES[config.strategy], models=True)
    )
    styles = [Edit(name) for name, weight in weights.items() if weight > 0 and Edit(name) in MODEL_EDITS]
    if not styles:
        return {}
    view = TaskView.of(task.config)
    chars = max(
        worst_case_chars(
            view, task.start, style=style, program_chars=GROWTH * task.start.size, max_chars=config.prompt_chars
        )
        for style in styles
    )
    found: dict[str, Plan] = {}
    for name, model in zip(models.names, models.models, strict=True):
        tokens = int(chars / CHARS_PER_TOKEN) + 1
        if model.context is not None:
            tokens = max(1, min(tokens, model.context - model.sampling.max_tokens))
        found[name] = plan(model, tokens, budget)
    return found
