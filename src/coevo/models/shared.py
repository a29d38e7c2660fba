"""Decoding many replies to few prompts: a prompt's keys and values are held once, and read once a token for all that continue it.

Decoding is bound by reading the cache, and in a group of n replies n - 1 of n parts of it are the same prompt again. Here the queries of a group
meet the prompt's keys as one product; each reply keeps only the keys of its own tokens, and one softmax spans both parts. Exact but for
the order of sums.

Plugs into transformers where it is meant to be extended: a cache layer, and an attention function by a name of ours.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

ATTENTION = "coevo_shared_prompts"
LEAST = 2.0
"""Replies per prompt from which sharing pays."""


def supports(model: Any) -> bool:
    """Whether the model's attention can be replaced: it asks for it by name, looks at everything, and adds nothing of its own."""
    config = model.config.get_text_config()
    kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
    return (
        bool(getattr(model, "_supports_attention_backend", False))
        and kinds == {"full_attention"}
        and not getattr(config, "sliding_window", None)
        and not getattr(config, "attn_logit_softcapping", None)
        and config._attn_implementation == "sdpa"
    )


class Groups:
    """Which prompt each row continues, and where its queries stand in the layout (prompts, places of the largest group)."""

    def __init__(self, prompts: Sequence[int], device: Any) -> None:
        import torch

        self._device = device
        self.prompts = list(prompts)
        ranks: list[int] = []
        counts: dict[int, int] = {}
        for prompt in self.prompts:
            ranks.append(counts.get(prompt, 0))
            counts[prompt] = ranks[-1] + 1
        self.count, self.size = len(counts), max(counts.values())
        slots = [prompt * self.size + rank for prompt, rank in zip(self.prompts, ranks, strict=True)]
        self._even = slots == list(range(self.count * self.size))
        self._slots = torch.tensor(slots, device=device)

    def keep(self, rows: Sequence[int]) -> tuple[Groups, list[int]]:
        """The groups of some rows, and the prompts (by their old numbers) that still have any."""
        left = [self.prompts[row] for row in rows]
        prompts = sorted(set(left))
        number = {old: new for new, old in enumerate(prompts)}
        return Groups([number[prompt] for prompt in left], self._device), prompts

    def gather(self, rows: Tensor) -> Tensor:
        """(rows, heads, r, n) -> (prompts, heads, places * r, n), zeros where a group is smaller than the largest."""
        heads, r, n = rows.shape[1:]
        if not self._even:
            spread = rows.new_zeros(self.count * self.size, heads, r, n)
            rows = spread.index_copy_(0, self._slots, rows)
        return rows.view(self.count, self.size, heads, r, n).transpose(1, 2).reshape(self.count, heads, -1, n)

    def scatter(self, grouped: Tensor, r: int) -> Tensor:
        """The inverse of `gather`."""
        heads, n = grouped.shape[1], grouped.shape[-1]
        places = grouped.view(self.count, heads, self.size, r, n).transpose(1, 2).reshape(-1, heads, r, n)
        return places if self._even else places.index_select(0, self._slots)


class SharedLayer:
    """One layer's keys and values: `prompt_*` (prompts, heads, columns, width) and, of each row, those of its own tokens."""

    is_initialized = True

    def __init__(self, keys: Tensor, values: Tensor, groups: Groups) -> None:
        self._prompt = (keys, values)
        self._own: tuple[Tensor, Tensor] | None = None
        self._used = 0
        self.groups = groups

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        """Take in one token a row. What is returned goes to the attention function in place of keys and values."""
        new = (key_states, value_states)
        if self._own is None or self._used == self._own[0].shape[2]:
            room = max(16, self._used)
            self._own = tuple(_longer(self._own[i] if self._own else None, new[i], self._used + room) for i in (0, 1))  # pyright: ignore[reportAttributeAccessIssue]
        assert self._own is not None
        for store, states in zip(self._own, new, strict=True):
            store[:, :, self._used : self._used + 1] = states
        self._used += 1
        return self, self

    def get_seq_length(self) -> int:
        return self._prompt[0].shape[2] + self._used

    def keep(self, rows: Tensor, prompts: Tensor | None, groups: Groups) -> None:
        """Go on with these rows, and these prompts where not all (None)."""
        if prompts is not None:
            self._prompt = tuple(part.index_select(0, prompts) for part in self._prompt)  # pyright: ignore[reportAttributeAccessIssue]
        if self._own is not None:
            self._own = tuple(part.index_select(0, rows) for part in self._own)  # pyright: ignore[reportAttributeAccessIssue]
        self.groups = groups

    def attend(self, query: Tensor, mask: Tensor, scaling: float) -> Tensor:
        """(rows, query heads, 1, width) -> (rows, 1, query heads, width). `mask` (prompts, 1, 1, columns) is added to the prompt's scores."""
        import torch

        assert self._own is not None
        (keys, values), groups = self._prompt, self.groups
        own_keys, own_values = (part[:, :, : self._used] for part in self._own)
        rows, width = query.shape[0], query.shape[-1]
        r = query.shape[1] // keys.shape[1]
        q = (query * scaling).reshape(rows, keys.shape[1], r, width)
        past = groups.scatter(groups.gather(q) @ keys.transpose(2, 3) + mask.to(q.dtype), r)
        now = q @ own_keys.transpose(2, 3)
        weights = torch.cat([past, now], dim=-1).softmax(dim=-1, dtype=torch.float32).to(values.dtype)
        columns = keys.shape[2]
        found = groups.scatter(groups.gather(weights[..., :columns]) @ values, r) + weights[..., columns:] @ own_values
        return found.reshape(rows, 1, -1, width)


def attention(
    module: Any,
    query: Tensor,
    key: Any,
    value: Any,
    attention_mask: Tensor,
    scaling: float | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """The attention function: `key` is the layer itself (see `SharedLayer.update`)."""
    return key.attend(query, attention_mask, query.shape[-1] ** -0.5 if scaling is None else scaling), None


@contextmanager
def attending(model: Any) -> Iterator[None]:
    """While it lasts, the model's layers use `attention`."""
    from transformers import AttentionInterface

    AttentionInterface.register(ATTENTION, attention)
    config = model.config.get_text_config()
    before = config._attn_implementation
    config._attn_implementation = ATTENTION
    try:
        yield
    finally:
        config._attn_implementation = before


def _longer(held: Tensor | None, new: Tensor, columns: int) -> Tensor:
    """A store like `new` with so many columns, the first of them `held`."""
    store = new.new_empty(*new.shape[:2], columns, new.shape[-1])
    if held is not None:
        store[:, :, : held.shape[2]] = held
    return store
