"""From a rollout to what a row of training is made of: the very tokens, and which of them were the policy's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from coevo.episodes.types import Rollout
from coevo.errors import UsageError


class RowParts(NamedTuple):
    """The fields of `engines.types.Row` that follow from a rollout. The last three have one entry per token after the prompt."""

    token_ids: tuple[int, ...]
    prompt_tokens: int
    advantages: tuple[float, ...]
    trained: tuple[bool, ...]
    logprobs: tuple[float, ...]


def rows_of(rollout: Rollout, advantages: Sequence[float | None]) -> RowParts:
    """One row: every sampled token with its turn's advantage and the sampler's log-probability; messages between turns are not
    trained. `advantages` has one number per turn, or None for a turn that is to stay out of the loss. Raises `UsageError` for a
    rollout that says nothing (unmeasured, no turn)."""
    if rollout.unmeasured or not rollout.turns:
        why = rollout.unmeasured or "it has no turn"
        raise UsageError(f"rollout {rollout.sample} of group {rollout.group!r} cannot be trained on: {why}")
    if len(advantages) != len(rollout.turns):
        raise UsageError(f"{len(rollout.turns)} turns need as many advantages, not {len(advantages)}")
    after = len(rollout.token_ids) - rollout.prompt_tokens
    per_token, trained, logprobs = [0.0] * after, [False] * after, [0.0] * after
    for turn, advantage in zip(rollout.turns, advantages, strict=True):
        if advantage is None:
            continue
        begin, count = turn.start - rollout.prompt_tokens, len(turn.token_ids)
        part = slice(begin, begin + count)
        per_token[part], trained[part], logprobs[part] = [float(advantage)] * count, [True] * count, turn.logprobs
    return RowParts(rollout.token_ids, rollout.prompt_tokens, tuple(per_token), tuple(trained), tuple(logprobs))
