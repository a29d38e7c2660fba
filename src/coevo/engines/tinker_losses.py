"""Losses as functions of log-probabilities alone: their values, their slopes, and which of them a Tinker server has itself.

Every loss of the engines is a sum over trained tokens, L = sum_t w_t l(q_t; p_t, A_t): q the trainer's log-probability, p the sampler's, A
the advantage, w a weight that depends on counts only. A server's losses are plain sums (or means) of the same l, so w goes into the
advantages: l is linear in A for a positive factor, clipped or not.

What a server does not have (gspo, a KL term, a dual clip) is still a function of q. Its gradient is sum_t (dL/dq_t) grad q_t, and that is
the gradient of `importance_sampling` at p := q with advantages -dL/dq_t. So a forward pass, the slopes worked out here, and that loss give
it exactly, for one more pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from coevo.engines.types import LossConfig, LossStats, Row

Array = np.ndarray

LOSSES = ("importance_sampling", "ppo", "dapo", "grpo", "dr_grpo", "gspo", "cispo", "cross_entropy")

_RATIO = 20.0
"""Log-ratios are bounded here before they are exponentiated: e^20 is past any clip, and finite."""


@dataclass(frozen=True)
class Values:
    """Of one row, over the tokens after the prompt; 0 where not trained."""

    loss: Array
    """l, unweighted."""
    slope: Array
    """dl/dq, unweighted."""
    log_ratio: Array
    """Of policy to sampler; gspo: of the sequence, at each of its tokens."""
    gap: Array
    """q - p of each token."""
    kl: Array
    """Estimate of KL(policy || reference) per token, by the loss's estimator."""
    low: Array
    """Whether the ratio was clipped from below ..."""
    high: Array
    """... and from above."""


def weights(rows: Sequence[Row], loss: LossConfig) -> list[float]:
    """The factor w of every trained token of each row, by the reductions of `LossConfig.name`."""
    counts = [sum(row.trained) for row in rows]
    total, used = max(1, sum(counts)), max(1, sum(1 for count in counts if count))
    if loss.name == "importance_sampling":
        return [1.0 for _ in rows]
    if loss.name in ("grpo", "gspo"):
        return [1.0 / (max(1, count) * used) for count in counts]
    if loss.name == "dr_grpo":
        return [1.0 / (used * (loss.length or 1)) for _ in rows]
    return [1.0 / total for _ in rows]


def evaluate(row: Row, logprobs: Sequence[float], loss: LossConfig, reference: Sequence[float] | None = None) -> Values:
    """Values and slopes of one row at the trainer's `logprobs`; `reference` is needed where `loss.kl` is not 0."""
    trained = np.array(row.trained, dtype=bool)
    q = np.where(trained, np.array(logprobs, dtype=float), 0.0)
    p = np.where(trained, np.array(row.logprobs, dtype=float), 0.0)
    advantage = np.where(trained, np.array(row.advantages, dtype=float), 0.0)
    gap = q - p
    log_ratio = np.full(len(q), gap[trained].mean()) if loss.name == "gspo" and trained.any() else gap
    value, slope, low, high = _policy(log_ratio, q, advantage, trained, loss)
    kl = np.zeros_like(q)
    if loss.kl and reference is not None:
        kl, kl_slope = _divergence(np.where(trained, np.array(reference, dtype=float), 0.0) - q, loss.kl_estimator)
        value, slope = value + loss.kl * kl, slope + loss.kl * kl_slope
    value, slope, kl = (np.where(trained, x, 0.0) for x in (value, slope, kl))
    return Values(value, slope, log_ratio, gap, kl, low & trained, high & trained)


def _policy(
    log_ratio: Array, q: Array, advantage: Array, trained: Array, loss: LossConfig
) -> tuple[Array, Array, Array, Array]:
    """(l, dl/dq, clipped low, clipped high) without the divergence."""
    never = np.zeros(len(q), dtype=bool)
    ratio = np.exp(np.clip(log_ratio, -_RATIO, _RATIO))
    if loss.name == "cross_entropy":
        return -advantage * q, -advantage, never, never
    if loss.name == "importance_sampling":
        return -ratio * advantage, -ratio * advantage, never, never
    if loss.name == "cispo":
        weight = np.minimum(ratio, 1 + loss.clip_high)
        return -weight * advantage * q, -weight * advantage, never, (ratio > 1 + loss.clip_high) & (advantage > 0)
    value, slope, low, high = _clipped(ratio, advantage, loss)
    if loss.name == "gspo":  # each of n tokens moves the one ratio by 1/n, and through it every token's term
        slope = np.full(len(q), slope[trained].mean() if trained.any() else 0.0)
    return value, slope, low, high


def _clipped(ratio: Array, advantage: Array, loss: LossConfig) -> tuple[Array, Array, Array, Array]:
    """-min(r' A, clip(r) A), its derivative by log r, and where r passed a bound; r' is r, for A < 0 at most `ratio_cap`."""
    cap = np.inf if loss.ratio_cap is None else loss.ratio_cap
    below, above = ratio < 1 - loss.clip_low, ratio > 1 + loss.clip_high
    capped = (advantage < 0) & (ratio > cap)
    free = np.where(capped, cap, ratio) * advantage
    bounded = np.clip(ratio, 1 - loss.clip_low, 1 + loss.clip_high) * advantage
    flat = np.where(free <= bounded, capped, below | above)
    slope = np.where(flat, 0.0, -ratio * advantage)
    return -np.minimum(free, bounded), slope, below & (advantage < 0), above & (advantage > 0)


def _divergence(log_r: Array, estimator: str) -> tuple[Array, Array]:
    """(estimate, its derivative by the policy's log-probability) at log r = log reference - log policy (Schulman, 2020)."""
    if estimator == "k1":
        return -log_r, np.ones_like(log_r)
    if estimator == "k2":
        return log_r**2 / 2, -log_r
    r = np.exp(np.clip(log_r, -_RATIO, _RATIO))
    return r - 1 - log_r, 1 - r


def is_native(loss: LossConfig, *, summed: bool) -> bool:
    """Whether a server's own losses carry this one out in a single pass.

    `cross_entropy` of a server that divides by the weights' sum does not: advantages may be negative, or cancel out.
    """
    if loss.kl or loss.ratio_cap is not None or loss.name == "gspo":
        return False
    return summed or loss.name != "cross_entropy"


def native(loss: LossConfig) -> tuple[str, dict[str, float] | None]:
    """(`loss_fn`, `loss_fn_config`) of a server, for what `is_native` says it has."""
    if loss.name in ("ppo", "dapo", "grpo", "dr_grpo"):
        return "ppo", {"clip_low_threshold": 1 - loss.clip_low, "clip_high_threshold": 1 + loss.clip_high}
    if loss.name == "cispo":
        return "cispo", {"clip_low_threshold": 0.0, "clip_high_threshold": 1 + loss.clip_high}
    return loss.name, None


def is_finite(row: Row) -> bool:
    """Whether a row's trained tokens have advantages and log-probabilities that are numbers."""
    trained = np.array(row.trained, dtype=bool)
    return all(np.isfinite(np.array(x, dtype=float)[trained]).all() for x in (row.advantages, row.logprobs))


def stats(rows: Sequence[Row], values: Sequence[Values], loss: LossConfig, *, skipped: int = 0) -> LossStats:
    """What one `forward_backward` did, from the log-probabilities at which the gradient was taken."""
    factors = weights(rows, loss)
    keep = [np.array(row.trained, dtype=bool) for row in rows]
    tokens = int(sum(mask.sum() for mask in keep))
    gap = _joined([value.gap[mask] for value, mask in zip(values, keep, strict=True)])
    ratio = np.exp(np.clip(_joined([v.log_ratio[mask] for v, mask in zip(values, keep, strict=True)]), -_RATIO, _RATIO))
    share = max(1, tokens)
    sampled = tokens > 0 and loss.name != "cross_entropy"  # supervised rows have no sampler to compare with
    return LossStats(
        loss=float(sum(factor * value.loss.sum() for factor, value in zip(factors, values, strict=True))),
        tokens=tokens,
        rows=len(rows),
        kl=float(sum(value.kl.sum() for value in values)) / share if loss.kl else None,
        ratio_mean=float(ratio.mean()) if sampled else 1.0,
        ratio_max=float(ratio.max()) if sampled else 1.0,
        clipped_low=float(sum(value.low.sum() for value in values)) / share,
        clipped_high=float(sum(value.high.sum() for value in values)) / share,
        logprob_gap_mean=float(np.abs(gap).mean()) if sampled else 0.0,
        logprob_gap_max=float(np.abs(gap).max()) if sampled else 0.0,
        skipped=skipped,
    )


def _joined(parts: Sequence[Array]) -> Array:
    return np.concatenate([np.zeros(0), *parts])


__all__ = ["LOSSES", "Values", "evaluate", "is_finite", "is_native", "native", "stats", "weights"]
