"""From a rollout to what rewards see: one `Sample` per turn, and nothing hidden in it."""

from __future__ import annotations

from coevo.episodes.standing import befores
from coevo.episodes.types import Rollout, Sample, Turn
from coevo.errors import UsageError
from coevo.evolution.types import Attempt, Edit
from coevo.models.types import StopReason


def samples_of(rollout: Rollout, *, max_tokens: int) -> list[Sample]:
    """One sample per turn of a measured rollout. `max_tokens` bounded each reply.

    Each turn is compared with the program that was current when it began: the best so far. Where the policy began from the
    statement alone, that is the start program until there is a better known one: its fitness, or 0 where it was never measured;
    it was not shown, so handing it in is no copy.
    """
    if rollout.unmeasured:
        raise UsageError(f"rollout {rollout.sample} of group {rollout.group!r} is unmeasured: {rollout.unmeasured}")
    context = rollout.state.context
    shown = {attempt.program.id for attempt in (*context.history, *context.inspirations)}
    if rollout.state.style is Edit.WRITE:
        shown = set()
    samples = []
    turns = rollout.turns
    for index, (turn, before) in enumerate(zip(turns, befores(rollout.state, turns), strict=True)):
        samples.append(_sample(rollout, turn, index, before, frozenset(shown), max_tokens))
        if turn.judged.program_hash:
            shown.add(turn.judged.program_hash)
    return samples


def _sample(
    rollout: Rollout, turn: Turn, index: int, before: Attempt | None, shown: frozenset[str], max_tokens: int
) -> Sample:
    judged = turn.judged
    program, evaluation, rejection = judged.proposal.program, judged.evaluation, judged.proposal.rejection
    parent = before or rollout.state.context.parent
    parent_hash = before.program.id if before else ""
    return Sample(
        parent_fitness=parent.fitness if parent.fitness is not None else 0.0,
        fitness=evaluation.fitness if evaluation else None,
        correctness=evaluation.correctness if evaluation else None,
        efficiency=evaluation.efficiency if evaluation else None,
        parent_correctness=parent.correctness,
        parent_efficiency=parent.efficiency,
        contract_ok=program is not None,
        rejection=rejection.value if rejection else "",
        program_hash=judged.program_hash,
        parent_hash=parent_hash,
        history=shown - {parent_hash},
        known=rollout.state.known,
        text=turn.text,
        source=program.source if program else "",
        tokens=len(turn.token_ids),
        max_tokens=max_tokens,
        truncated=turn.stop_reason is StopReason.LENGTH,
        turn=index,
        outcomes=tuple(test.passed for test in evaluation.tests) if evaluation else (),
    )
