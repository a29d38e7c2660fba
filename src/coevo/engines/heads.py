"""From hidden states to the log-probability and entropy of chosen tokens, without a graph over tokens x vocabulary.

The logits are the largest tensors of training: autograd would keep several of that size. Here they are computed some rows at a time, only
the probabilities stay for the backward pass (or nothing, and they are computed again, above `KEEP_BYTES`), and the gradient is formed
in their place: d log p(t) / dz = 1[t] - p, and dH / dz = -p (log p + H).
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

CHUNK_BYTES = 32 << 20
"""Of logits computed at a time."""
KEEP_BYTES = 1 << 30
"""Of probabilities kept from forward to backward; above that they are computed again."""


def token_stats(
    hidden: Tensor, weight: Tensor, targets: Tensor, scale: Tensor, *, compute: Any
) -> tuple[Tensor, Tensor]:
    """(log p of each target, entropy of each distribution), float32, of softmax(scale * hidden @ weight^T).

    `hidden` (n, width), `weight` (vocabulary, width), `targets` and `scale` (n,); `compute` is the dtype of the products.
    """
    return _function().apply(hidden, weight, targets, scale, compute)


@cache
def _function() -> Any:
    """The autograd function; a class made at the first use, since torch is not imported before."""
    import torch

    class TokenStats(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, hidden: Tensor, weight: Tensor, targets: Tensor, scale: Tensor, compute: Any) -> Any:
            count, vocabulary = len(hidden), weight.shape[0]
            learns = any(ctx.needs_input_grad[:2])
            keep = learns and count * vocabulary * 4 <= KEEP_BYTES
            kept = hidden.new_empty(count, vocabulary, dtype=torch.float32) if keep else None
            logp = hidden.new_empty(count, dtype=torch.float32)
            entropy = torch.empty_like(logp)
            matrix = weight.to(compute)
            for part in _chunks(count, vocabulary):
                z = _logits(hidden[part], matrix, scale[part])
                z -= z.amax(dim=-1, keepdim=True)
                p = torch.exp(z, out=kept[part]) if kept is not None else z.exp()
                total = p.sum(dim=-1)
                log_total = total.log()
                logp[part] = z.gather(1, targets[part, None])[:, 0] - log_total
                entropy[part] = log_total - torch.linalg.vecdot(p, z) / total
                if kept is not None:
                    p /= total[:, None]
            ctx.save_for_backward(hidden, weight, targets, scale, entropy)
            ctx.kept, ctx.compute = kept, compute
            return logp, entropy

        @staticmethod
        def backward(ctx: Any, *grads: Any) -> Any:
            hidden, weight, targets, scale, entropy = ctx.saved_tensors
            d_logp, d_entropy = grads
            d_hidden = torch.empty_like(hidden) if ctx.needs_input_grad[0] else None
            d_weight = torch.zeros_like(weight) if ctx.needs_input_grad[1] else None
            matrix = weight.to(ctx.compute)
            with_entropy = bool(d_entropy.any())
            for part in _chunks(len(hidden), weight.shape[0]):
                if ctx.kept is not None:
                    p = ctx.kept[part]
                else:
                    p = _logits(hidden[part], matrix, scale[part]).softmax(dim=-1)
                slope = -d_logp[part, None]
                if with_entropy:  # log 0 is -inf, and p log p is 0 there
                    logs = p.log().clamp_(min=-1e30)
                    slope = logs.add_(entropy[part, None]).mul_(-d_entropy[part, None]).add_(slope)
                g = p.mul_(slope)
                g.scatter_add_(1, targets[part, None], d_logp[part, None])
                g *= scale[part, None]
                g = g.to(ctx.compute)
                if d_hidden is not None:
                    d_hidden[part] = (g @ matrix).to(hidden.dtype)
                if d_weight is not None and d_weight.dtype == g.dtype:
                    d_weight.addmm_(g.T, hidden[part].to(g.dtype))
                elif d_weight is not None:
                    d_weight += g.T @ hidden[part].to(g.dtype)
            ctx.kept = None  # it holds the gradient now
            return d_hidden, d_weight, None, None, None

    return TokenStats


def _logits(hidden: Tensor, weight: Tensor, scale: Tensor) -> Tensor:
    z = (hidden.to(weight.dtype) @ weight.T).float()
    return z.mul_(scale[:, None])


def _chunks(count: int, vocabulary: int) -> list[slice]:
    size = max(1, CHUNK_BYTES // (vocabulary * 4))
    return [slice(start, min(start + size, count)) for start in range(0, count, size)]
