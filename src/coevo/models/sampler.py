"""Batched sampling with a KV cache, each sequence on its own random numbers.

What a row samples depends on its prompt, its settings and its seed: its uniform numbers are drawn beforehand from a generator of
its own, on the CPU whatever the device. Neighbours can touch it in one way only: sums of floats come out differently in their last
bits with the shape of a batch, which now and then moves a draw across a boundary between two tokens. Equal batches on one machine
give equal replies.

Layout of a batch, in columns: [prefix that all prompts share | left padding | rest of each prompt | sampled]. The shared prefix is
computed once for all rows, and equal prompts once for all that continue them, which is most of the work when each is sampled many times.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from coevo.models import shared
from coevo.models.types import Completion, StopReason

if TYPE_CHECKING:
    import torch

CHUNK = 1024
"""Columns of prompt computed at a time, which bounds the memory of attention masks."""
COMPACT = 0.75
"""Rows that have ended are dropped from the batch when no more than this share of it is alive."""
_HEAD = 2048
"""Likeliest tokens looked at first for `top_p`; a full sort follows only where they do not suffice."""


@dataclass(frozen=True)
class Prompt:
    """One sequence to continue."""

    ids: tuple[int, ...]
    max_new: int
    temperature: float = 1.0
    top_p: float = 1.0
    seed: int = 0
    stop: tuple[str, ...] = ()


class Sampled(NamedTuple):
    """A continuation: every token sampled, the one that ended it too."""

    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    """log p of each under softmax(logits / temperature) (temperature 1 for greedy), before `top_p` cuts."""
    stop_reason: StopReason


def completion_of(prompt: Prompt, sampled: Sampled, text: str, *, model: str, wall_s: float) -> Completion:
    """What a caller of a model gets for a continuation whose text is `text`: cut at the first of the prompt's stop strings."""
    cuts = [at for stop in prompt.stop if (at := text.find(stop)) >= 0]
    return Completion(
        text=text[: min(cuts)] if cuts else text,
        stop_reason=sampled.stop_reason,
        model=model,
        prompt_tokens=len(prompt.ids),
        completion_tokens=len(sampled.token_ids),
        wall_s=wall_s,
        token_ids=sampled.token_ids,
        logprobs=sampled.logprobs,
    )


@dataclass
class _Row:
    index: int
    prompt: Prompt
    uniforms: torch.Tensor
    tokens: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    ended: StopReason | None = None

    def sampled(self) -> Sampled:
        return Sampled(tuple(self.tokens), tuple(self.logprobs), self.ended or StopReason.STOP)


class NotNumbers(ValueError):
    """The model's logits are NaN or infinite: its weights diverged, or its dtype is too narrow."""


class Cancelled(Exception):
    """Nobody waits for the rest of this batch any more."""


def sample(
    model: Any,
    prompts: Sequence[Prompt],
    *,
    ends: Collection[int],
    decode: Callable[[list[int]], str],
    cancelled: Callable[[], bool] = lambda: False,
    each: Callable[[int, Sampled], None] | None = None,
    share: bool = False,
) -> list[Sampled]:
    """Continue all prompts together, each until an end token, a stop string, or `max_new` tokens (at least 1).

    `model` is a causal language model of transformers in eval mode; `decode` turns token ids into text. `cancelled` is asked
    before each token; `each(index, sampled)` is called as soon as that one has ended. `share` keeps the cache of equal prompts once
    while decoding (see `shared`), for models that support it. Raises `NotNumbers` for logits that are not numbers, `Cancelled`, and
    what torch raises for lack of memory.
    """
    import torch

    if not prompts:
        return []
    rows = [_Row(index, prompt, _uniforms(prompt)) for index, prompt in enumerate(prompts)]
    with torch.inference_mode():
        batch = _Batch(model, [prompt.ids for prompt in prompts], share=share)
        active, logits = list(rows), batch.prefill()
        while True:
            if cancelled():
                raise Cancelled
            tokens, logprobs = draw(logits, [row.prompt for row in active], [_next(row) for row in active])
            for row, token, logprob in zip(active, tokens, logprobs, strict=True):
                if row.ended is None:
                    row.tokens.append(token)
                    row.logprobs.append(logprob)
                    row.ended = _ended(row, token, ends, decode)
                    if row.ended is not None and each is not None:
                        each(row.index, row.sampled())
            alive = [i for i, row in enumerate(active) if row.ended is None]
            if not alive:
                break
            if len(alive) <= COMPACT * len(active):
                batch.keep(alive)
                active, tokens = [active[i] for i in alive], [tokens[i] for i in alive]
            logits = batch.step(tokens)
    return [row.sampled() for row in rows]


def draw(logits: torch.Tensor, prompts: Sequence[Prompt], uniforms: Sequence[float]) -> tuple[list[int], list[float]]:
    """One token a row from logits (rows, vocabulary), by inverting the distribution's cumulative sum at the row's number in [0, 1)."""
    import torch

    scale = [prompt.temperature if prompt.temperature > 0 else 1.0 for prompt in prompts]
    logp = torch.log_softmax(logits.float() / torch.tensor(scale, device=logits.device)[:, None], dim=-1)
    if not bool(torch.isfinite(logp.amax(dim=-1)).all()):
        raise NotNumbers("the model's logits are not numbers (NaN or infinite); try dtype=float32")
    probabilities = logp.exp()
    points = torch.tensor(uniforms, dtype=torch.float64, device=logits.device)[:, None]
    tokens = _invert(probabilities, points)
    greedy = [i for i, prompt in enumerate(prompts) if prompt.temperature <= 0]
    cut = [i for i, prompt in enumerate(prompts) if prompt.temperature > 0 and prompt.top_p < 1]
    if greedy:
        tokens[greedy] = logp[greedy].argmax(dim=-1)
    if cut:
        mass = torch.tensor([prompts[i].top_p for i in cut], dtype=torch.float64, device=logits.device)[:, None]
        tokens[cut] = _nucleus(probabilities[cut], mass, points[cut])
    return tokens.tolist(), logp.gather(1, tokens[:, None])[:, 0].tolist()


def _invert(probabilities: torch.Tensor, points: torch.Tensor) -> torch.Tensor:
    """Index of the first cumulative sum above `points` times the total; never one of probability 0."""
    import torch

    sums = probabilities.cumsum(dim=-1, dtype=torch.float64)
    total = sums[:, -1:].contiguous()
    index = torch.searchsorted(sums, points * total, right=True)
    last = torch.searchsorted(sums, total)  # the first to reach the total: nothing after it has any weight
    return torch.minimum(index, last)[:, 0]


def _nucleus(probabilities: torch.Tensor, mass: torch.Tensor, points: torch.Tensor) -> torch.Tensor:
    """As `_invert`, within the smallest set of likeliest tokens that holds `mass`."""
    import torch

    size = probabilities.shape[-1]
    values, order = probabilities.topk(min(_HEAD, size), dim=-1)
    if size > _HEAD and bool((values.sum(dim=-1, dtype=torch.float64)[:, None] < mass).any()):
        values, order = probabilities.sort(dim=-1, descending=True)
    before = values.cumsum(dim=-1, dtype=torch.float64) - values
    kept = torch.where(before < mass, values, torch.zeros_like(values))
    return order.gather(1, _invert(kept, points)[:, None])[:, 0]


def _uniforms(prompt: Prompt) -> torch.Tensor:
    import torch

    generator = torch.Generator().manual_seed(prompt.seed & 0xFFFF_FFFF_FFFF_FFFF)
    return torch.rand(max(1, prompt.max_new), generator=generator, dtype=torch.float64)


def _next(row: _Row) -> float:
    return float(row.uniforms[len(row.tokens)]) if row.ended is None else 0.0


def _ended(row: _Row, token: int, ends: Collection[int], decode: Callable[[list[int]], str]) -> StopReason | None:
    if token in ends:
        return StopReason.STOP
    if row.prompt.stop:
        # every token but a few spans at least one byte of text, so the last ones cover a stop string that has just ended
        window = max(len(stop.encode("utf-8", "surrogatepass")) for stop in row.prompt.stop) + 4
        tail = decode(row.tokens[-window:])
        if any(stop in tail for stop in row.prompt.stop):
            return StopReason.STOP
    return StopReason.LENGTH if len(row.tokens) >= row.prompt.max_new else None


class _Batch:
    """The model's state for the rows that are still sampled."""

    def __init__(self, model: Any, prompts: Sequence[tuple[int, ...]], *, share: bool) -> None:
        import torch

        self._model = model
        self._device = model.device
        self._shared = min(_common(prompts), min(map(len, prompts)) - 1)
        unique = {ids: i for i, ids in enumerate(dict.fromkeys(prompts))}
        self._rows = [unique[ids] for ids in prompts]
        self._share = share and len(prompts) >= shared.LEAST * len(unique)
        self._groups: shared.Groups | None = None
        rest = [ids[self._shared :] for ids in unique]
        width = max(map(len, rest))
        self._prefix = torch.tensor([prompts[0][: self._shared]], dtype=torch.long, device=self._device)
        self._rest = torch.tensor(
            [(0,) * (width - len(ids)) + ids for ids in rest], dtype=torch.long, device=self._device
        )
        pads = torch.tensor([width - len(ids) for ids in rest], device=self._device)[:, None]
        present = torch.arange(width, device=self._device)[None, :] >= pads
        prefix = torch.ones(len(rest), self._shared, dtype=torch.long, device=self._device)
        self._mask = torch.cat([prefix, present.long()], dim=1)
        self._positions = (self._mask.cumsum(dim=1) - 1).clamp(min=0)
        self._cache = _growing_cache(model.config)
        parameters = inspect.signature(model.forward).parameters
        self._cache_name = "cache" if "cache" in parameters else "past_key_values"  # renamed during transformers 5

    def prefill(self) -> torch.Tensor:
        """Compute the prompts, each once; logits (rows, vocabulary) of the first token to sample."""
        for start in range(0, self._shared, CHUNK):
            part = slice(start, min(start + CHUNK, self._shared))
            self._forward(self._prefix[:, part], self._mask[:1, : part.stop], self._positions[:1, part])
        if self._shared and len(self._rest) > 1:
            self._cache.batch_repeat_interleave(len(self._rest))
        logits = None
        for start in range(0, self._rest.shape[1], CHUNK):
            part = slice(start, min(start + CHUNK, self._rest.shape[1]))
            columns = slice(self._shared + part.start, self._shared + part.stop)
            logits = self._forward(self._rest[:, part], self._mask[:, : columns.stop], self._positions[:, columns])
        assert logits is not None
        self._positions = self._positions[:, -1:]
        if self._share:
            self._part()
        elif self._rows != list(range(len(self._rest))):
            self.keep(self._rows)
        return logits[self._rows]

    def _part(self) -> None:
        """From here on the prompts' cache and that of each row's own tokens are apart."""
        import torch

        self._groups = groups = shared.Groups(self._rows, self._device)
        self._cache.layers = [shared.SharedLayer(layer.keys, layer.values, groups) for layer in self._cache.layers]
        floor = torch.finfo(self._model.dtype).min
        self._mask = (1.0 - self._mask.to(self._model.dtype)).mul_(floor)[:, None, None, :]
        self._positions = self._positions[self._rows]

    def step(self, tokens: Sequence[int]) -> torch.Tensor:
        """Add one token a row; logits (rows, vocabulary) of the next."""
        import torch

        ids = torch.tensor(tokens, dtype=torch.long, device=self._device)[:, None]
        self._positions = self._positions + 1
        if self._groups is not None:
            with shared.attending(self._model):
                return self._forward(ids, self._mask, self._positions)
        self._mask = torch.cat([self._mask, torch.ones_like(ids)], dim=1)
        return self._forward(ids, self._mask, self._positions)

    def keep(self, rows: list[int]) -> None:
        """Go on with these rows only (or with copies of them)."""
        import torch

        index = torch.tensor(rows, device=self._device)
        self._positions = self._positions[index]
        if self._groups is None:
            self._cache.batch_select_indices(index)
            self._mask = self._mask[index]
            return
        before, (self._groups, left) = self._groups, self._groups.keep(rows)
        prompts = torch.tensor(left, device=self._device) if len(left) < before.count else None
        for layer in self._cache.layers:
            layer.keep(index, prompts, self._groups)
        if prompts is not None:
            self._mask = self._mask[prompts]

    def _forward(self, ids: torch.Tensor, mask: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        output = self._model(
            input_ids=ids,
            attention_mask=mask,
            position_ids=positions,
            use_cache=True,
            logits_to_keep=1,
            **{self._cache_name: self._cache},
        )
        return output.logits[:, -1]


def _common(prompts: Sequence[tuple[int, ...]]) -> int:
    """Length of the longest prefix that all share; between the least and the greatest is where the first difference lies."""
    low, high = min(prompts), max(prompts)
    return next((i for i, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), min(len(low), len(high)))


def _growing_cache(config: Any) -> Any:
    """The library's cache, with full-attention layers that write into spare room instead of copying all they hold each step."""
    from transformers.cache_utils import DynamicCache, DynamicLayer

    cache = DynamicCache(config=config)
    growing = _growing_layer()
    cache.layers = [growing() if type(layer) is DynamicLayer else layer for layer in cache.layers]
    return cache


def _growing_layer() -> type:
    from transformers.cache_utils import DynamicLayer

    class GrowingLayer(DynamicLayer):
        """Keys and values are views of a store that grows by half."""

        store: tuple[Any, Any] | None = None

        def update(self, key_states: Any, value_states: Any, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
            if not self.is_initialized:
                self.lazy_initialization(key_states, value_states)
            held: Any = self.keys
            used = held.shape[-2] if held.ndim == 4 else 0
            need = used + key_states.shape[-2]
            if self.store is None or self.store[0].shape[-2] < need:
                self.store = (_roomier(self.keys, key_states, need), _roomier(self.values, value_states, need))
            for store, new in zip(self.store, (key_states, value_states), strict=True):
                store[:, :, used:need] = new
            self.keys, self.values = (store[:, :, :need] for store in self.store)
            return self.keys, self.values

        def batch_select_indices(self, indices: Any) -> None:
            super().batch_select_indices(indices)
            self.store = None

        def batch_repeat_interleave(self, repeats: int) -> None:
            super().batch_repeat_interleave(repeats)
            self.store = None

    return GrowingLayer


def _roomier(held: Any, new: Any, need: int) -> Any:
    """A store of the shape of `new` with room for `need` columns and half as many again, holding `held`."""
    store = new.new_empty(*new.shape[:2], need + max(64, need // 2), new.shape[-1])
    if held.ndim == 4:
        store[:, :, : held.shape[-2]] = held
    return store
