"""Which tokens go through the network together.

Rows of a group share their prompt, which needs computing only once: a *pack* is one sequence [prompt | reply 1 | reply 2 | ...] in
which every reply has the positions it would have alone, and sees the prompt and itself. Packing saves the prompts' repetition and the
padding of short replies, and pays with attention over the whole pack; `plan` weighs both and cuts groups into packs accordingly (a pack
of one reply is a plain sequence). Packs of like length make a micro-batch of at most `micro_tokens` tokens, longest first, so that memory
runs out at once or not at all.

Nothing here touches weights; arrays are numpy's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

FEW = 512
"""Tokens below which a micro-batch takes any shorter pack, since padding is then cheaper than another pass."""


@dataclass(frozen=True)
class Item:
    """A row as the network needs it: its tokens, and which of those after the prompt are to be predicted."""

    ids: np.ndarray
    """int64, the prompt first."""
    prompt: int
    wanted: np.ndarray
    """Offsets after the prompt, ascending, of the tokens whose log-probability is needed."""
    temperature: float = 1.0

    @property
    def reply(self) -> int:
        """Tokens after the prompt that must be computed: those before the last wanted one."""
        return int(self.wanted[-1]) if len(self.wanted) else 0


@dataclass(frozen=True)
class Pack:
    """Indices of items that begin with the same prompt and are computed in one sequence."""

    members: tuple[int, ...]
    prompt: int
    length: int


@dataclass(frozen=True)
class Micro:
    """One pass: packs side by side, padded on the right.

    `ids`, `positions`: (packs, length). `segments`: the same shape, 0 for a prompt, k for the k-th reply of its pack, -1 for padding; None where
    every pack holds one reply, and causal attention is all that is needed. `items`: the rows in order; the rest has one entry per
    wanted token: `source` (flat position that predicts it), `targets`, `row` (index into `items`), `column` (offset after the prompt).
    """

    items: tuple[int, ...]
    ids: np.ndarray
    positions: np.ndarray
    segments: np.ndarray | None
    source: np.ndarray
    targets: np.ndarray
    row: np.ndarray
    column: np.ndarray
    inverse_temperature: np.ndarray


def plan(items: Sequence[Item], *, micro_tokens: int, pair_cost: float, pack: bool) -> list[list[Pack]]:
    """Micro-batches of packs that cover all items with wanted tokens.

    `pair_cost` is the cost of attention between two tokens in units of the rest of the work on one token.
    """
    groups: dict[bytes, list[int]] = {}
    for index, item in enumerate(items):
        if len(item.wanted):
            key = item.ids[: item.prompt].tobytes() if pack else index.to_bytes(8, "big")
            groups.setdefault(key, []).append(index)
    packs: list[Pack] = []
    for members in groups.values():
        prompt = items[members[0]].prompt
        count = pack_count([items[i].reply for i in members], prompt, micro_tokens=micro_tokens, pair_cost=pair_cost)
        found = _cut(items, members, prompt, count)
        while count < len(members) and max(p.length for p in found) > micro_tokens:  # the cut is not perfectly even
            count += 1
            found = _cut(items, members, prompt, count)
        packs += found
    single = _filled([p for p in packs if len(p.members) == 1], micro_tokens)
    return _filled([p for p in packs if len(p.members) > 1], micro_tokens) + single


def pack_count(replies: Sequence[int], prompt: int, *, micro_tokens: int, pair_cost: float) -> int:
    """Into how many packs a group is best cut. Cost of k < n packs: kP + C + pair * k (P + C/k)^2, with a full mask; of n
    single sequences, padded to the longest and causal: n (P + max) + pair * n (P + max)^2 / 2."""
    n, total = len(replies), sum(replies)
    longest = prompt + max(replies)
    best, least = n, n * longest + pair_cost * n * longest**2 / 2
    for k in range(1, n):
        length = prompt + total / k
        cost = k * length + pair_cost * k * length**2
        if cost < least and length <= max(micro_tokens, longest):
            best, least = k, cost
    return best


def arrange(items: Sequence[Item], packs: Sequence[Pack]) -> Micro:
    """The arrays of one micro-batch."""
    shape = (len(packs), max(pack.length for pack in packs))
    ids = np.zeros(shape, np.int64)
    positions = np.zeros(shape, np.int64)
    segments = np.full(shape, -1, np.int64)
    order: list[int] = []
    parts: list[tuple[np.ndarray, ...]] = []
    for b, pack in enumerate(packs):
        first = items[pack.members[0]]
        ids[b, : pack.prompt] = first.ids[: pack.prompt]
        positions[b, : pack.prompt] = np.arange(pack.prompt)
        segments[b, : pack.prompt] = 0
        at = pack.prompt
        for k, member in enumerate(pack.members, 1):
            item = items[member]
            span = slice(at, at + item.reply)
            ids[b, span] = item.ids[pack.prompt : pack.prompt + item.reply]
            positions[b, span] = pack.prompt + np.arange(item.reply)
            segments[b, span] = k
            # the token at offset 0 is predicted by the prompt's last, all others by the one before them
            source = b * shape[1] + np.where(item.wanted == 0, pack.prompt - 1, at + item.wanted - 1)
            parts.append((source, item.ids[pack.prompt + item.wanted], np.full(len(source), len(order)), item.wanted))
            order.append(member)
            at += item.reply
    source, targets, row, column = (np.concatenate(arrays).astype(np.int64) for arrays in zip(*parts, strict=True))
    scale = np.array([1 / items[i].temperature if items[i].temperature > 0 else 1.0 for i in order], np.float32)
    packed = any(len(pack.members) > 1 for pack in packs)
    return Micro(tuple(order), ids, positions, segments if packed else None, source, targets, row, column, scale[row])


def _cut(items: Sequence[Item], members: Sequence[int], prompt: int, count: int) -> list[Pack]:
    """`count` packs of about equal length: longest replies first, each to the shortest pack."""
    lengths = [prompt] * count
    parts: list[list[int]] = [[] for _ in range(count)]
    for index in sorted(members, key=lambda i: -items[i].reply):
        slot = min(range(count), key=lambda k: (lengths[k], k)) if count < len(members) else parts.index([])
        parts[slot].append(index)
        lengths[slot] += items[index].reply
    return [Pack(tuple(sorted(part)), prompt, length) for part, length in zip(parts, lengths, strict=True) if part]


def _filled(packs: Sequence[Pack], micro_tokens: int) -> list[list[Pack]]:
    """Packs in order of length, longest first, as many together as `micro_tokens` holds; none padded to over twice its length."""
    found: list[list[Pack]] = []
    for pack in sorted(packs, key=lambda p: -p.length):
        if found:
            last = found[-1]
            width = last[0].length
            like = pack.length * 2 >= width or width * len(last) < FEW
            if width * (len(last) + 1) <= micro_tokens and like:
                last.append(pack)
                continue
        found.append([pack])
    return found
