"""What the optimizer does with one batch, and doing it again.

An update is a function of the engine's state, the rows, the loss and the rate; all but the state are kept with the step. So a run that was
killed repeats the updates since its last checkpoint without sampling, and checks that they come out as they did.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean
from typing import TYPE_CHECKING, Any

from coevo.engines.types import Engine, LossConfig, LossStats, Row, StepStats
from coevo.training.entropy import EntropyState, observe
from coevo.training.schedule import lr_at

if TYPE_CHECKING:
    from coevo.training.parts import Parts

SAME = 1e-4
"""Relative difference of gradient norms up to which a repeated update counts as the same."""


@dataclass(frozen=True)
class Update:
    """What became of a batch."""

    entropy: EntropyState
    """The entropy floor's memory afterwards."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    lr: float = 0.0
    """As handed to the optimizer."""
    coefficient: float = 0.0
    """Of the entropy bonus, as handed to the loss."""
    passes: tuple[tuple[LossStats, StepStats], ...] = ()
    loss: LossConfig | None = None
    """As handed to the engine."""
    skipped: str = ""
    broken: bool = False
    """The loss or the gradient was not finite, so the weights are untouched."""

    @classmethod
    def none(cls, entropy: EntropyState, why: str) -> Update:
        """Of a step that has nothing to learn from."""
        return cls(entropy, skipped=why)


def update(parts: Parts, step: int, rows: Sequence[Row], entropy: EntropyState) -> Update:
    """Learn from the rows of a step: `epochs` passes, an optimizer step after each."""
    recipe, engine = parts.recipe, parts.engine
    loss, lr = parts.loss_at(step, entropy), lr_at(recipe, step)
    staleness = max(engine.version - row.version for row in rows)
    far = kl_for_ceiling(parts, rows, loss)
    passes = passes_of(engine, rows, loss, lr, recipe.epochs, parts)
    metrics = metrics_of(passes) | {"staleness": staleness, "lr": lr}
    if far is not None:
        metrics["kl"] = far
    if loss.entropy:
        metrics["entropy_coefficient"] = loss.entropy
    seen = passes[0][0].entropy
    entropy = observe(entropy, seen) if seen is not None and math.isfinite(seen) else entropy
    broken = not any(step_stats.applied for _, step_stats in passes)
    why = (
        f"the gradient was not finite ({passes[0][0].skipped} of {len(rows)} rows had no finite loss)" if broken else ""
    )
    return Update(entropy, metrics, lr, loss.entropy, passes, loss, why, broken)


def passes_of(
    engine: Engine, rows: Sequence[Row], loss: LossConfig, lr: float, epochs: int, parts: Parts
) -> tuple[tuple[LossStats, StepStats], ...]:
    done = []
    for _ in range(epochs):
        stats = engine.forward_backward(rows, loss)
        done.append((stats, engine.optim_step(lr, parts.recipe.optim)))
    return tuple(done)


def repeat(parts: Parts, step: int, rows: Sequence[Row], kept: Mapping[str, Any]) -> None:
    """Do the update of a committed step again, by what was kept of it; notes where it does not come out as it did."""
    loss = parts.plain_loss.model_copy(update={"entropy": kept["coefficient"]})
    passes = passes_of(parts.engine, rows, loss, kept["lr"], parts.recipe.epochs, parts)
    norm, before = passes[-1][1].grad_norm, kept["metrics"].get("grad_norm")
    if before is not None and not math.isclose(norm, before, rel_tol=SAME, abs_tol=1e-9):
        parts.note(
            f"step {step}, repeated, has gradient norm {norm:.6g} where it had {before:.6g}: this machine computes differently from "
            "the one before, so from here on the weights are not those of an uninterrupted run"
        )


def kl_for_ceiling(parts: Parts, rows: Sequence[Row], loss: LossConfig) -> float | None:
    """The divergence that `max_kl` bounds, by an extra pass; None without a bound, and where the loss measures it anyway."""
    if parts.recipe.max_kl is None or loss.kl > 0:
        return None
    return divergence(parts.engine, rows, loss.reference)


def divergence(engine: Engine, rows: Sequence[Row], reference: str) -> float:
    """KL(policy || reference) per trained token, by the estimator k3 (Schulman 2020): mean of r - 1 - log r, r = reference / policy."""
    values: list[float] = []
    for temperature in sorted({row.temperature for row in rows}):
        some = [row for row in rows if row.temperature == temperature]
        found = engine.logprobs(
            [row.token_ids for row in some],
            prompt_tokens=[row.prompt_tokens for row in some],
            temperature=temperature,
            of=reference,
        )
        for row, theirs in zip(some, found, strict=True):
            for ours, other, trained in zip(row.logprobs, theirs, row.trained, strict=True):
                if trained:
                    log_r = min(other - ours, _FAR)
                    values.append(math.exp(log_r) - 1 - log_r)
    return fmean(values) if values else 0.0


_FAR = 30.0
"""Log-ratio at which a token's term is cut: far beyond any bound that a recipe sets."""


def metrics_of(passes: Sequence[tuple[LossStats, StepStats]]) -> dict[str, float]:
    """Of the first pass what describes the policy that sampled; over all passes what describes the steps made."""
    first, last = passes[0][0], passes[-1][1]
    losses, steps = [loss for loss, _ in passes], [step for _, step in passes]
    found: dict[str, float | None] = {
        "loss": first.loss,
        "entropy": first.entropy,
        "kl": first.kl,
        "gap_mean": first.logprob_gap_mean,
        "gap_max": first.logprob_gap_max,
        "ratio_mean": fmean(loss.ratio_mean for loss in losses),
        "ratio_max": max(loss.ratio_max for loss in losses),
        "clipped_low": fmean(loss.clipped_low for loss in losses),
        "clipped_high": fmean(loss.clipped_high for loss in losses),
        "trained_tokens": first.tokens,
        "trained_rows": first.rows,
        "rows_without_loss": max(loss.skipped for loss in losses),
        "grad_norm": last.grad_norm,
        "update_ratio": _sum(step.update_ratio for step in steps),
        "applied": sum(step.applied for step in steps),
    }
    return {name: float(value) for name, value in found.items() if value is not None and math.isfinite(value)}


def _sum(values: Any) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
