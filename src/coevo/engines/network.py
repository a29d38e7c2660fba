"""A causal language model as the training pass uses it: tokens in, log-probability and entropy of the wanted ones out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, Any

import numpy as np

from coevo.engines import heads
from coevo.engines.packing import Item, Micro, Pack, arrange
from coevo.models import shared
from coevo.models.sampler import Prompt, sample

if TYPE_CHECKING:
    from torch import Tensor

PAIR_COST = 2.0
"""Attention between two tokens costs this many times its share of multiplications: it runs below the speed of large products."""


class Network:
    """Wraps a model of transformers (in eval mode). Two things are found out by trying, once: whether the logits are the output
    matrix times the hidden states (else the model's own head is used, at more memory), and whether packs give what plain sequences give.
    """

    def __init__(self, lm: Any, *, pack: bool, compute: Any) -> None:
        self.lm = lm
        self.compute = compute
        self.device = lm.device
        self.plain_head = self._has_plain_head()
        self.pack_note = "off" if not pack else self._why_no_packs()
        self.pair_cost = pair_cost(lm)
        self.shares = pack and self._can_share()

    @property
    def packs(self) -> bool:
        return not self.pack_note

    def stats(self, micro: Micro) -> tuple[Tensor, Tensor]:
        """(log-probabilities, entropies), each (wanted tokens,), at each row's temperature."""
        import torch

        targets, source, scale = self._tensors(micro.targets, micro.source, micro.inverse_temperature)
        with self.autocast():
            if self.plain_head:
                hidden = self.lm.base_model(**self._inputs(micro)).last_hidden_state
                chosen = hidden.flatten(0, 1).index_select(0, source)
            else:
                columns, where = np.unique(micro.source % micro.ids.shape[1], return_inverse=True)
                keep, at = self._tensors(columns, where)
                logits = self.lm(**self._inputs(micro), logits_to_keep=keep).logits.float()
                chosen = logits[source // micro.ids.shape[1], at]
        if self.plain_head:
            weight = self.lm.get_output_embeddings().weight
            return heads.token_stats(chosen, weight, targets, scale, compute=self.compute)
        logs = torch.log_softmax(chosen * scale[:, None], dim=-1)
        return logs.gather(1, targets[:, None])[:, 0], -(logs.exp() * logs).sum(-1)

    @contextmanager
    def autocast(self) -> Iterator[None]:
        """Products in `compute`, where that is not the weights' own type."""
        import torch

        lower = self.compute != torch.float32 and self.lm.dtype == torch.float32
        with torch.autocast(self.device.type, dtype=self.compute) if lower else nullcontext():
            yield

    def _inputs(self, micro: Micro) -> dict[str, Any]:
        (ids,) = self._tensors(micro.ids)
        if micro.segments is None:  # padding on the right: nothing real ever looks at it
            return {"input_ids": ids, "use_cache": False}
        positions, segments = self._tensors(micro.positions, micro.segments)
        mask = self._additive(pack_mask(segments))
        return {"input_ids": ids, "position_ids": positions, "attention_mask": mask, "use_cache": False}

    def _additive(self, mask: Tensor) -> Tensor:
        """As this model's attention takes it: sdpa a truth value, the plain implementation what is added to the scores."""
        import torch

        if self.lm.config.get_text_config()._attn_implementation == "sdpa":
            return mask
        floor = torch.finfo(self.lm.dtype).min
        return torch.zeros_like(mask, dtype=self.lm.dtype).masked_fill_(~mask, floor)

    def _tensors(self, *arrays: np.ndarray) -> list[Tensor]:
        import torch

        found = [torch.from_numpy(np.ascontiguousarray(array)) for array in arrays]
        if self.device.type == "cpu":
            return found
        return [tensor.pin_memory().to(self.device, non_blocking=True) for tensor in found]

    def _has_plain_head(self) -> bool:
        import torch

        head = self.lm.get_output_embeddings()
        if type(head) is not torch.nn.Linear or head.bias is not None or self.lm.base_model is self.lm:
            return False
        ids = self._probe_ids(2, 7)
        with torch.no_grad():
            try:
                hidden = self.lm.base_model(input_ids=ids, use_cache=False).last_hidden_state
                logits = self.lm(input_ids=ids, use_cache=False).logits
            except (TypeError, AttributeError):
                return False
            return torch.equal(torch.isfinite(logits), torch.isfinite(hidden @ head.weight.T)) and torch.allclose(
                logits.float(), (hidden @ head.weight.T).float(), rtol=1e-2, atol=1e-3
            )

    def _why_no_packs(self) -> str:
        """Empty where packs can be used. Windows and such do not show on short probes, so they are asked for by name."""
        import torch

        config = self.lm.config.get_text_config()
        kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
        if kinds != {"full_attention"} or getattr(config, "sliding_window", None):
            return f"off: layers of {', '.join(sorted(kinds))}, window {getattr(config, 'sliding_window', None)}"
        ids = self._probe_ids(3, 4).cpu().numpy()
        items = [Item(np.concatenate([ids[0], ids[k], ids[0][:2]]), 4, np.arange(6)) for k in (1, 2)]
        together = arrange(items, [Pack((0, 1), 4, 14)])
        apart = arrange(items, [Pack((0,), 4, 9), Pack((1,), 4, 9)])
        with torch.no_grad():
            try:
                got, expected = self.stats(together)[0], self.stats(apart)[0]
            except Exception as e:
                return f"off: the model refused one ({type(e).__name__})"
        if not torch.allclose(got, expected, rtol=0, atol=self._tolerance()):
            return f"off: log-probabilities differ by {(got - expected).abs().max():.2g}"
        return ""

    def _can_share(self) -> bool:
        """Whether decoding with shared prompts gives what decoding without gives."""
        if not shared.supports(self.lm):
            return False
        heads_ = [tuple(row) for row in self._probe_ids(2, 5).tolist()]
        prompts = [
            Prompt(heads_[0], 2, seed=1),
            Prompt(heads_[0], 3, seed=2),
            *(Prompt(heads_[1], 3, seed=i) for i in (3, 4, 5)),
        ]
        with self.autocast():
            try:
                told = [sample(self.lm, prompts, ends=(), decode=str, share=share) for share in (False, True)]
            except (RuntimeError, TypeError, AttributeError, ValueError):
                return False
        tolerance = self._tolerance()
        return all(
            a.token_ids == b.token_ids and np.allclose(a.logprobs, b.logprobs, rtol=0, atol=tolerance)
            for a, b in zip(*told, strict=True)
        )

    def _tolerance(self) -> float:
        """Of log-probabilities that should be equal but for the order of sums."""
        import torch

        return 1e-3 if self.compute == self.lm.dtype == torch.float32 else 0.1

    def _probe_ids(self, rows: int, columns: int) -> Tensor:
        import torch

        generator = torch.Generator().manual_seed(0)
        size = self.lm.get_input_embeddings().weight.shape[0]
        return torch.randint(size, (rows, columns), generator=generator).to(self.device)


def pack_mask(segments: Tensor) -> Tensor:
    """(packs, 1, length, length): True where the token of the row may look at the token of the column: not after itself, and in
    the prompt or in its own reply. Padding looks at the prompt too, since a row of nothing would be NaN."""
    import torch

    length = segments.shape[1]
    causal = torch.ones(length, length, dtype=torch.bool, device=segments.device).tril()
    seen = (segments[:, None, :] == 0) | (segments[:, None, :] == segments[:, :, None])
    return (seen & causal)[:, None]


def pair_cost(lm: Any) -> float:
    """Cost of attention between two tokens relative to the rest of the work on one: 4 * layers * width of all heads multiplications
    against 2 * weights outside the embeddings."""
    config = lm.config.get_text_config()
    heads_, layers = getattr(config, "num_attention_heads", 8), getattr(config, "num_hidden_layers", 1)
    width = heads_ * (getattr(config, "head_dim", None) or config.hidden_size // heads_)
    embeddings = {id(m.weight) for m in (lm.get_input_embeddings(), lm.get_output_embeddings()) if m is not None}
    weights = sum(p.numel() for p in lm.parameters() if id(p) not in embeddings)
    return PAIR_COST * 4 * layers * width / max(1, 2 * weights)


__all__ = ["Network", "pack_mask", "pair_cost"]
