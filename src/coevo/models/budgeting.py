"""What a budget buys, said before anything is spent. Pure functions of counts and prices."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from coevo.errors import ConfigError
from coevo.models.tokens import chat_tokens
from coevo.models.types import Message, Model


@dataclass(frozen=True)
class Plan:
    """The worst case of one proposal, and how many of them a budget buys at least."""

    prompt_tokens: int
    """Upper bound of one prompt."""
    max_tokens: int
    """Upper bound of one reply."""
    cost_usd: float | None
    """Of one proposal at both bounds; None where the prices are unknown."""
    proposals: int | None
    """Bought at least, all of them at the worst; None when nothing bounds them."""
    bound_by: str = ""
    """The dimension of the budget that ends first."""

    def lines(self) -> tuple[str, ...]:
        """For the screen, before a run."""
        each = f"at most {self.prompt_tokens:,} prompt + {self.max_tokens:,} reply tokens"
        money = "" if not self.cost_usd else f", ${self.cost_usd:.4f}"
        if self.proposals is None:
            return (f"a proposal takes {each}{money}", "the budget does not bound the proposals")
        return (
            f"a proposal takes {each}{money}",
            f"the budget buys at least {self.proposals:,} proposal{'s' if self.proposals != 1 else ''} ({self.bound_by})",
        )


def worst_prompt_tokens(model: Model, sample: Sequence[Message], *, worst_chars: int | None = None) -> int:
    """Upper bound of a prompt's tokens. `sample` is a real prompt of the run, `worst_chars` the most characters that a prompt of
    it can grow to; the sample's tokens a character are taken to hold for the rest."""
    tokens = chat_tokens(model.count_tokens, sample)
    chars = sum(len(message.content) for message in sample)
    if worst_chars is None or worst_chars <= chars or not chars:
        return tokens
    return math.ceil(tokens * worst_chars / chars)


def check_context(name: str, prompt_tokens: int, max_tokens: int, context: int | None) -> None:
    """Refuse, with the numbers, a prompt and reply that do not fit the context. `context` None is unknown, and passes."""
    if context is None or prompt_tokens + max_tokens <= context:
        return
    if prompt_tokens >= context:
        raise ConfigError(
            f"{name}: a prompt of up to {prompt_tokens} tokens cannot fit a context of {context}; take a model with a longer "
            f"context (context=N), or a smaller program, or show fewer earlier attempts"
        )
    raise ConfigError(
        f"{name}: a prompt of up to {prompt_tokens} tokens and max_tokens = {max_tokens} exceed a context of {context}; set "
        f"max_tokens={context - prompt_tokens} or less"
    )


def plan(
    model: Model, prompt_tokens: int, budget: Mapping[str, float | None], *, max_tokens: int | None = None
) -> Plan:
    """How many proposals of this worst case `budget` buys at least. Amounts of `budget` by name (`proposals`, `evaluations`,
    `tokens`, `usd`; others do not bound proposals), None for no bound; each proposal is one evaluation.

    Raises `ConfigError` if the worst case does not fit the model's context, if dollars are bounded and the model's prices are
    unknown, or if the budget does not buy one proposal.
    """
    reply = model.sampling.max_tokens if max_tokens is None else max_tokens
    check_context(model.name, prompt_tokens, reply, model.context)
    if budget.get("usd") is not None and not model.priced:
        raise ConfigError(
            f"{model.name}: a budget in dollars needs its prices; add price_in and price_out (US dollars per million tokens) to the model"
        )
    cost = model.cost(prompt_tokens, reply) if model.priced else None
    each = {"proposals": 1.0, "evaluations": 1.0, "tokens": float(prompt_tokens + reply), "usd": cost or 0.0}
    counts = {
        name: math.floor(amount / each[name] * (1 + 1e-12))
        for name in each
        if (amount := budget.get(name)) is not None and each[name] > 0
    }
    if not counts:
        return Plan(prompt_tokens, reply, cost, None)
    bound = min(counts, key=lambda name: counts[name])
    if counts[bound] < 1:
        raise ConfigError(
            f"{model.name}: one proposal may take {each[bound]:g} {bound} (a prompt of {prompt_tokens} tokens, a reply of {reply}), "
            f"and the budget has {budget[bound]:g}; raise {bound}, or lower max_tokens"
        )
    return Plan(prompt_tokens, reply, cost, counts[bound], bound)
