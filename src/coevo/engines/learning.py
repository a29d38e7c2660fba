"""From rows to a gradient: one pass over one micro-batch, and the numbers told of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from coevo.engines import losses
from coevo.engines.losses import Totals
from coevo.engines.network import Network
from coevo.engines.packing import Item, Micro
from coevo.engines.types import LossConfig, LossStats, Row
from coevo.errors import ConfigError

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Batch:
    """The rows of one `forward_backward`, as arrays over their trained tokens."""

    items: tuple[Item, ...]
    advantages: tuple[np.ndarray, ...]
    """float32, one per trained token of each row."""
    logprobs: tuple[np.ndarray, ...]
    totals: Totals

    def idle(self, index: int) -> bool:
        """Whether the row pushes nowhere: all its advantages are 0."""
        return not self.advantages[index].any()


def batch_of(rows: Sequence[Row], loss: LossConfig) -> Batch:
    """Check the rows and lay them out. Raises `ConfigError` that names the row."""
    if loss.name == "dr_grpo" and loss.length is None:
        raise ConfigError(
            "loss dr_grpo: loss.length is not set; give the longest completion allowed, by which sums are divided"
        )
    items, advantages, logprobs = [], [], []
    for index, row in enumerate(rows):
        count = len(row.token_ids) - row.prompt_tokens
        if row.prompt_tokens < 1 or count < 0:
            raise ConfigError(f"row {index}: prompt_tokens = {row.prompt_tokens} of {len(row.token_ids)} tokens in all")
        for name in ("advantages", "trained", "logprobs"):
            if len(getattr(row, name)) != count:
                raise ConfigError(f"row {index}: {len(getattr(row, name))} {name} for {count} tokens after the prompt")
        wanted = np.flatnonzero(np.asarray(row.trained, bool))
        items.append(Item(np.asarray(row.token_ids, np.int64), row.prompt_tokens, wanted, row.temperature))
        advantages.append(np.asarray(row.advantages, np.float32)[wanted])
        logprobs.append(np.asarray(row.logprobs, np.float32)[wanted])
    counts = [len(item.wanted) for item in items]
    totals = Totals(rows=sum(count > 0 for count in counts), tokens=sum(counts), length=loss.length or 1)
    return Batch(tuple(items), tuple(advantages), tuple(logprobs), totals)


@dataclass
class Tally:
    """Sums over trained tokens (but `loss`, over rows), gathered over micro-batches."""

    tokens: int = 0
    rows: int = 0
    skipped: int = 0
    sums: dict[str, float] = field(default_factory=dict)
    most: dict[str, float] = field(default_factory=dict)

    def add(self, sums: dict[str, Tensor], most: dict[str, Tensor]) -> None:
        import torch

        values = torch.stack([value.double() for value in (*sums.values(), *most.values())]).tolist()
        for name, value in zip(sums, values, strict=False):
            self.sums[name] = self.sums.get(name, 0.0) + value
        for name, value in zip(most, values[len(sums) :], strict=True):
            self.most[name] = max(self.most.get(name, 0.0), value)

    def stats(self, loss: LossConfig) -> LossStats:
        tokens = max(1, self.tokens)
        mean = {name: value / tokens for name, value in self.sums.items()}
        sampled = loss.name != "cross_entropy"  # supervised rows have no sampler to compare with
        return LossStats(
            loss=self.sums.get("loss", 0.0),
            tokens=self.tokens,
            rows=self.rows,
            entropy=mean.get("entropy"),
            kl=mean.get("kl"),
            ratio_mean=mean.get("ratio", 1.0) if sampled else 1.0,
            ratio_max=self.most.get("ratio", 1.0) if sampled else 1.0,
            clipped_low=mean.get("low", 0.0),
            clipped_high=mean.get("high", 0.0),
            logprob_gap_mean=mean.get("gap", 0.0) if sampled else 0.0,
            logprob_gap_max=self.most.get("gap", 0.0) if sampled else 0.0,
            skipped=self.skipped,
        )


def micro_step(
    network: Network,
    micro: Micro,
    batch: Batch,
    loss: LossConfig,
    tally: Tally,
    *,
    reference: Tensor | None = None,
    learn: bool = True,
) -> bool:
    """Add one micro-batch's gradient and numbers. `reference`: log-probabilities of the wanted tokens under the reference.

    A row whose loss or gradient is not finite is left out and counted. Returns False, and has then done nothing, where rows
    have log-probabilities that are no numbers while others share the pass: those may be spoilt by their neighbours.
    """
    import torch

    with torch.set_grad_enabled(learn):
        logp, entropy = network.stats(micro)
    if len(micro.items) > 1 and not bool(torch.isfinite(logp.detach()).all()):
        return False
    table = _Table(micro, batch, logp.device)
    leaf, entropy_leaf = logp.detach().requires_grad_(learn), entropy.detach().requires_grad_(learn)
    with torch.set_grad_enabled(learn):
        values = table.spread(leaf)
        known = table.spread(reference) if reference is not None else None
        terms = losses.token_terms(loss, values, table.old, table.advantages, table.mask, known)
        by_row = losses.reduce_terms(loss, terms.loss, table.mask, batch.totals)
        if loss.entropy:
            by_row = by_row - loss.entropy * table.spread(entropy_leaf).sum(-1) / max(1, batch.totals.tokens)
        good = torch.isfinite(by_row.detach())
        total = torch.where(good, by_row, torch.zeros_like(by_row)).sum()
    if learn and bool(good.any()):
        slopes = torch.autograd.grad(total, [leaf, entropy_leaf], allow_unused=True, materialize_grads=True)
        good &= table.all_finite(*slopes)
        slopes = [torch.where(good[table.row], slope, torch.zeros_like(slope)) for slope in slopes]
        torch.autograd.backward([logp, entropy], slopes)
    _count(tally, table, good, by_row.detach(), terms, values.detach(), table.spread(entropy.detach()))
    return True


class _Table:
    """Between the flat order of wanted tokens and (rows, tokens)."""

    def __init__(self, micro: Micro, batch: Batch, device: Any) -> None:
        import torch

        counts = [len(batch.items[i].wanted) for i in micro.items]
        width = max(counts)
        rank = np.arange(len(micro.row)) - np.concatenate([[0], np.cumsum(counts)[:-1]])[micro.row]
        arrays = np.zeros((3, len(counts), width), np.float32)
        for r, index in enumerate(micro.items):
            arrays[0, r, : counts[r]] = batch.logprobs[index]
            arrays[1, r, : counts[r]] = batch.advantages[index]
            arrays[2, r, : counts[r]] = 1.0
        self.old, self.advantages, self.mask = torch.from_numpy(arrays).to(device)
        self.row, self.rank = torch.from_numpy(micro.row).to(device), torch.from_numpy(rank).to(device)

    def spread(self, flat: Tensor) -> Tensor:
        """(wanted tokens,) -> (rows, tokens), 0 elsewhere."""
        return self.mask.new_zeros(self.mask.shape).index_put((self.row, self.rank), flat.to(self.mask.dtype))

    def all_finite(self, *flat: Tensor) -> Tensor:
        """(rows,): whether every value of the row is finite."""
        import torch

        wrong = torch.zeros_like(self.mask)
        for values in flat:
            wrong = wrong + self.spread((~torch.isfinite(values)).float())
        return wrong.sum(-1) == 0


def _count(
    tally: Tally, table: _Table, good: Tensor, by_row: Tensor, terms: losses.Terms, values: Tensor, entropy: Tensor
) -> None:
    import torch

    mask = table.mask * good[:, None]

    def over(x: Tensor) -> Tensor:
        return torch.where(mask > 0, x, torch.zeros_like(x))

    gap = over((values - table.old).abs())
    ratio = over(terms.ratio)
    sums = {"loss": torch.where(good, by_row, torch.zeros_like(by_row)).sum(), "entropy": over(entropy).sum()}
    sums |= {"ratio": ratio.sum(), "low": over(terms.clipped_low).sum(), "high": over(terms.clipped_high).sum()}
    sums |= {"gap": gap.sum()}
    if terms.kl is not None:
        sums["kl"] = over(terms.kl.detach()).sum()
    tally.add(sums, {"ratio": ratio.max(), "gap": gap.max()})
    kept = int(good.sum())
    tally.rows += kept
    tally.skipped += len(good) - kept
    tally.tokens += int(mask.sum())
