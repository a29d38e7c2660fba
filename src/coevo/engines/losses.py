"""The losses, as functions of small tensors: (rows, tokens) log-probabilities, advantages and masks.

Each `*_terms` gives the loss of every token before it is reduced; `reduce_terms` says how tokens become one number. Sources: PPO
(arXiv:1707.06347), dual clip (arXiv:1912.09729), GRPO (arXiv:2402.03300), DAPO (arXiv:2503.14476), Dr. GRPO (arXiv:2503.20783),
GSPO (arXiv:2507.18071), CISPO (arXiv:2506.13585), KL estimators (J. Schulman, "Approximating KL divergence", 2020).

Where TRL 1.16 differs (tests/engines/test_losses_trl.py holds both together):

* cispo: TRL's `epsilon_high` is the bound of the weight itself, ours is 1 + clip_high;
* `delta`: TRL caps ratios whatever the advantage's sign. For positive advantages the clip is tighter anyway, so with
  `ratio_cap` >= 1 + `clip_high` both are the same;
* means: TRL averages within each micro-batch and divides by their number; here they are over the whole step, so the cut into micro-batches
  changes nothing (and rows without a trained token count for nothing);
* KL: TRL weighs each token's by its ratio unless `use_bias_correction_kl=False`; ours is the plain estimator (on policy, k2 has the
  gradient which that weight is for);
* the entropy bonus is the mean over all trained tokens of the step, in TRL that of each micro-batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from coevo.engines.types import LossConfig

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Totals:
    """Of all rows of one `forward_backward`: what means are over."""

    rows: int
    """Rows with at least one trained token."""
    tokens: int
    """Trained tokens."""
    length: int
    """dr_grpo: the constant that stands for a row's length."""


@dataclass(frozen=True)
class Terms:
    """Of one micro-batch. All tensors (rows, tokens), 0 where not trained."""

    loss: Tensor
    """Before reduction, KL included."""
    ratio: Tensor
    """Of policy to sampler, before any clipping; gspo: of the sequence, at each of its tokens."""
    clipped_low: Tensor
    clipped_high: Tensor
    kl: Tensor | None


def token_terms(
    config: LossConfig, logp: Tensor, old: Tensor, advantages: Tensor, mask: Tensor, reference: Tensor | None = None
) -> Terms:
    """Loss of each token. `mask` is 1.0 for trained tokens; the other tensors' values there do not matter if they are finite."""
    import torch

    log_ratio = (logp - old) * mask
    if config.name == "gspo":
        log_ratio = sequence_log_ratio(log_ratio, mask)
    ratio = log_ratio.exp()
    if config.name == "importance_sampling":
        loss = -ratio * advantages
    elif config.name == "cross_entropy":
        loss = -logp * advantages
    elif config.name == "cispo":
        loss = -ratio.detach().clamp(max=1 + config.clip_high) * advantages * logp
    else:
        loss = clipped(ratio, advantages, low=config.clip_low, high=config.clip_high, cap=config.ratio_cap)
    kl = None
    if reference is not None:
        kl = kl_terms(config.kl_estimator, logp, reference) * mask
        if config.kl:
            loss = loss + config.kl * kl
    detached = ratio.detach()
    clips = config.name not in ("importance_sampling", "cross_entropy")
    high = (detached > 1 + config.clip_high) & (advantages > 0) & clips
    low = (detached < 1 - config.clip_low) & (advantages < 0) & (clips and config.name != "cispo")
    return Terms(
        loss=torch.where(mask > 0, loss, torch.zeros_like(loss)),
        ratio=detached * mask,
        clipped_low=low * mask,
        clipped_high=high * mask,
        kl=kl,
    )


def clipped(ratio: Tensor, advantages: Tensor, *, low: float, high: float, cap: float | None = None) -> Tensor:
    """-min(r A, clip(r, 1 - low, 1 + high) A); with `cap`, r is bounded by it where A < 0 (dual clip)."""
    import torch

    bounded = ratio.clamp(1 - low, 1 + high)
    if cap is not None:
        ratio = torch.where(advantages < 0, ratio.clamp(max=cap), ratio)
    return -torch.minimum(ratio * advantages, bounded * advantages)


def sequence_log_ratio(log_ratio: Tensor, mask: Tensor) -> Tensor:
    """Mean log-ratio of each row's trained tokens (the log of their geometric mean), at each of its tokens."""
    mean = (log_ratio * mask).sum(-1, keepdim=True) / mask.sum(-1, keepdim=True).clamp(min=1.0)
    return mean.expand_as(log_ratio)


def kl_terms(estimator: str, logp: Tensor, reference: Tensor) -> Tensor:
    """Estimate of KL(policy || reference) at each sampled token. k1 is unbiased but has no useful gradient (its expectation is 0);
    k2's gradient is that of the true divergence; k3 is unbiased and never negative."""
    log_r = reference - logp
    if estimator == "k1":
        return -log_r
    if estimator == "k2":
        return log_r.square() / 2
    return log_r.exp() - log_r - 1


def reduce_terms(config: LossConfig, terms: Tensor, mask: Tensor, totals: Totals) -> Tensor:
    """Each row's share of the loss (rows,): their sum over all micro-batches is the loss.

    Sum: importance_sampling. Mean over all trained tokens: ppo, dapo, cispo, cross_entropy. Mean over each row's tokens, then over
    rows: grpo, gspo. Sum over tokens / (rows * length): dr_grpo.
    """
    sums = (terms * mask).sum(-1)
    if config.name == "importance_sampling":
        return sums
    if config.name in ("grpo", "gspo"):
        return sums / mask.sum(-1).clamp(min=1.0) / max(1, totals.rows)
    if config.name == "dr_grpo":
        return sums / (max(1, totals.rows) * totals.length)
    return sums / max(1, totals.tokens)
