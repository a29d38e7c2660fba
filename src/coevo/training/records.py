"""The two transactions of a step, and reading them back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from coevo.engines.types import Row
from coevo.episodes.evidence import evidence_row
from coevo.errors import StoreError
from coevo.runs import Run
from coevo.runs.types import Ticket
from coevo.training import batch as batches
from coevo.training import effect
from coevo.training.batch import Batch, Group
from coevo.training.purse import spent_on
from coevo.training.rowtext import pack, unpack
from coevo.training.updates import Update

if TYPE_CHECKING:
    from coevo.training.parts import Parts


TRAIN = "train"
"""Of the evidence rows of training steps."""


def commit_batch(parts: Parts, batch: Batch, rows: Sequence[Row], tickets: Sequence[Ticket]) -> dict[str, Any]:
    """Keep what a step sampled: evidence, the rows as trained, the figures, what it cost. One ticket per round of sampling.

    Returns all figures, as `history.curve` would."""
    run, key = parts.run, rows_key(batch.step)
    payload: dict[str, Any] = {
        "skipped": batch.skipped,
        "version": parts.engine.version,
        "groups": [[group.key, group.state.id, group.kept, group.dropped] for group in batch.groups],
        "metrics": batches.figures(batch.groups),
        "reasons": batches.reasons(batch.groups),
        "effective": effect.of_batch(batch.groups),
        "filter": dict(batch.filter),
        "timing": dict(batch.timing),
    }
    with run.transaction():
        if rows:
            run.put_completion(key, pack(rows))
            payload["rows"] = key
        run.append("batch", payload, step=batch.step)
        run.put_rollouts(evidence(parts, batch.step, batch.groups, split=TRAIN), step=batch.step)
        for round, ticket in enumerate(tickets):
            some = [rollout for group in batch.groups if group.round == round for rollout in group.rollouts]
            run.ledger.settle(ticket, **spent_on(some))
    return {"step": batch.step, **payload["metrics"], **payload["timing"], "skipped": batch.skipped}


def commit_update(parts: Parts, step: int, result: Update, timing: Mapping[str, float]) -> dict[str, Any]:
    """Keep what the optimizer did; with it the step is made. Returns all figures."""
    payload = {
        "skipped": result.skipped,
        "passes": len(result.passes),
        "version": parts.engine.version,
        "lr": result.lr,
        "coefficient": result.coefficient,
        "metrics": dict(result.metrics),
        "effective": effect.of_update(result),
        "entropy": result.entropy.to_dict(),
        "timing": dict(timing),
    }
    with parts.run.transaction():
        parts.run.append("update", payload, step=step)
    return {"step": step, **result.metrics, **timing, "skipped": result.skipped}


def evidence(parts: Parts, step: int, groups: Iterable[Group], *, split: str) -> Iterable[dict[str, Any]]:
    """One row of schema 1 per rollout."""
    for group in groups:
        for i, rollout in enumerate(group.rollouts):
            yield evidence_row(
                rollout,
                run=parts.run.path.name,
                branch=parts.branch,
                step=step,
                split=split,
                kind=parts.tasks[group.state.task].kind,
                **_outcome(group, i, judged=split == TRAIN),
            )


def _outcome(group: Group, i: int, *, judged: bool) -> dict[str, Any]:
    if not judged:
        return {"reward": None}
    scored = [one for one in group.scored[i] if one is not None]
    parts: dict[str, float] = {}
    for one in scored:
        for name, value in one.parts.items():
            parts[name] = parts.get(name, 0.0) + value
    known = [value for value in group.advantages[i] if value is not None]
    masked = next((one.reason for one in scored if one.reward is None), "")
    return {
        "reward": group.returns[i],
        "parts": parts,
        "advantage": known or None,
        "kept": group.kept and bool(known),
        "reason": masked,
    }


def rows_key(step: int) -> str:
    """Under which the rows of a step are kept."""
    return f"rows-{step}"


def stored_rows(run: Run, step: int) -> list[Row]:
    """The rows of a committed batch, as trained."""
    found = run.completion(rows_key(step))
    if found is None:
        raise StoreError(f"run {run.path} holds no rows of step {step}, which it needs to go on; it is damaged")
    return unpack(found)
